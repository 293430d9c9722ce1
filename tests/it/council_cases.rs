//! Council cases from the request to the decision: by files in every order, by one-shot commands,
//! at their deadlines, through crashes, and thousands at a time.

mod burden;
mod crashes;
mod deadlines;
mod files;
mod redacted;
mod secret;
mod settling;
mod shots;
mod watched;
