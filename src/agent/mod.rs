//! The agent's side: a request is signed with the agent's own key, handed to the spool or the socket, and its answer waited
//! for. Nothing here reads or writes the ledger, the rules or the state.
