//! `rules/approval.yaml`: whose signatures a change of rules needs, by the files that it changes.
//! The keys of approvers are in `rules/approvers`; see [`Signers`].

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::bounds::{Bounded, OutOfBounds};
use super::lint::line_from;
use super::lint::meaning::{Warning, What};
use super::rulebook::RulebookError;
use super::yaml;
use spoolgate_wire::ids::AreaName;
use spoolgate_wire::sshsig::{SIGNERS_BYTES_MAX, Signed, Signers, Token};

/// Path of the file below the home.
pub const PATH: &str = "rules/approval.yaml";
/// Path of the list of approvers' keys below the home, in the format of git's allowed_signers.
pub const APPROVERS_PATH: &str = "rules/approvers";

/// Most areas.
const AREAS_MAX: usize = 16;
/// Most approvers of an area.
const APPROVERS_MAX: usize = 64;
/// Most file prefixes of an area.
const FILES_MAX: usize = 64;

spoolgate_wire::named! {
    /// Who refuses changes of rules that lack approvals.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
        schemars::JsonSchema)]
    pub enum Enforce {
        /// Only `spoolgate rules review`.
        #[default]
        Review = "review",
        /// The gate, too.
        Gate = "gate",
    }
}

spoolgate_wire::named! {
    /// What a FIDO key must attest. Signatures by other keys attest nothing.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
        schemars::JsonSchema)]
    pub enum Touch {
        /// That a person touched the key.
        #[default]
        Required = "required",
        /// Also that the key verified the person, by PIN or fingerprint.
        Pin = "pin",
    }
}

/// Why the signature of a FIDO key is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TouchError {
    /// Nobody touched the key.
    #[error("nobody touched the FIDO key; sign with a key made without `-O no-touch-required`")]
    Absent,
    /// The key did not verify the person.
    #[error("the FIDO key did not verify its user; sign with a key made with `-O verify-required`")]
    Unverified,
}

impl Touch {
    /// Checks what a FIDO key attests. A signature by a key in software (`None`) always passes.
    ///
    /// # Errors
    /// Returns [`TouchError`] if that is not enough.
    pub fn check(self, token: Option<Token>) -> Result<(), TouchError> {
        match (self, token) {
            (_, None) => Ok(()),
            (_, Some(token)) if !token.is_present => Err(TouchError::Absent),
            (Touch::Pin, Some(token)) if !token.is_verified => Err(TouchError::Unverified),
            (Touch::Required | Touch::Pin, Some(_)) => Ok(()),
        }
    }
}

/// The approvers of changes of some files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// Its name.
    pub name: AreaName,
    /// The files and folders that belong to it, without a trailing `/`; an empty path is every
    /// file.
    pub files: Vec<String>,
    /// The identities in `rules/approvers` that may approve.
    pub approvers: BTreeSet<String>,
    /// How many different approvers must sign.
    pub need: u32,
}

/// Whose signatures a change of rules needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Who refuses changes that lack approvals.
    pub enforce: Enforce,
    /// What a FIDO key must attest.
    pub touch: Touch,
    /// All areas but the last, in the order of the file.
    before: Vec<Area>,
    /// The last area, which every file fits.
    rest: Area,
}

/// `rules/approval.yaml`.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalFile {
    /// Who refuses changes of rules that lack approvals; default: `review`.
    #[serde(default)]
    enforce: Enforce,
    /// What the signature of a FIDO key must attest; default: `required`.
    #[serde(default)]
    touch: Touch,
    /// The areas: a file belongs to the first one that it fits. The last one has the path `""`,
    /// which every file fits. Default: one area, in which any one approver of `rules/approvers`
    /// approves.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(length(min = 1, max = 16))]
    areas: Option<Vec<AreaInFile>>,
}

/// An area.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct AreaInFile {
    /// Its name.
    name: AreaName,
    /// Files and folders below the home, such as `rules/safety.yaml` or `rules/core`; `""` is every
    /// file.
    #[schemars(length(min = 1, max = 64))]
    files: Vec<String>,
    /// Identities of `rules/approvers`.
    #[schemars(length(min = 1, max = 64))]
    approvers: Vec<String>,
    /// How many different approvers must sign.
    need: Bounded<1, 64>,
}

/// What is wrong with the areas.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(
        "`enforce: gate` needs {APPROVERS_PATH}: without keys of approvers nobody could approve a \
            change"
    )]
    NobodyApproves,
    #[error("`areas` is empty; leave it out, and any one approver approves any change")]
    NoAreas,
    #[error("{0} areas; at most {AREAS_MAX} are possible")]
    Areas(usize),
    #[error("two areas are named `{0}`")]
    SameName(AreaName),
    #[error("area `{area}` has {count} entries in `{list}`; use 1 to {most}")]
    Length {
        area: AreaName,
        list: &'static str,
        count: usize,
        most: usize,
    },
    #[error(
        "area `{area}`: `{path}` is not the path of a file or folder below the home, such as \
            `rules/core`"
    )]
    Path { area: AreaName, path: String },
    #[error("area `{area}`: `{path}` never applies, because area `{earlier}` has `{by}`")]
    Covered {
        area: AreaName,
        path: String,
        earlier: AreaName,
        by: String,
    },
    #[error("the last area, `{0}`, does not have the path `\"\"`, so some files are in no area")]
    NoRest(AreaName),
    #[error("area `{area}` names `{approver}` twice")]
    ApproverTwice { area: AreaName, approver: String },
    #[error("area `{area}` names `{approver}`, who has no usable key in {APPROVERS_PATH}")]
    NoKey { area: AreaName, approver: String },
    #[error("area `{area}`: `need` {source}")]
    Need { area: AreaName, source: OutOfBounds },
}

impl Fault {
    /// Returns the value that the fault is about, if it may be on another line than the name of its
    /// area.
    fn value(&self) -> Option<&str> {
        match self {
            Fault::Path { path, .. } | Fault::Covered { path, .. } => Some(path),
            Fault::ApproverTwice { approver, .. } | Fault::NoKey { approver, .. } => Some(approver),
            Fault::Need { .. } => Some("need"),
            Fault::NobodyApproves
            | Fault::NoAreas
            | Fault::Areas(_)
            | Fault::SameName(_)
            | Fault::Length { .. }
            | Fault::NoRest(_) => None,
        }
    }
}

impl Area {
    /// Returns whether the area names a path by another entry than the one that every file fits.
    pub fn names(&self, path: &str) -> bool {
        let mut named = self.files.iter().filter(|own| !own.is_empty());
        named.any(|own| covers(own, path))
    }

    /// Returns whether a path below the home fits this area.
    fn fits(&self, path: &str) -> bool {
        self.files.iter().any(|own| covers(own, path))
    }
}

impl Approval {
    /// Reads `rules/approval.yaml` and `rules/approvers` from the files of a rulebook, by path
    /// below the home. Both files are optional.
    ///
    /// # Errors
    /// Returns [`RulebookError`] if one of them is not valid, or if an area names an approver
    /// without a key.
    pub fn of(
        files: &BTreeMap<String, String>,
    ) -> Result<(Option<Signers>, Approval), RulebookError> {
        let signers = files.get(APPROVERS_PATH).map(|text| read_signers(text));
        let signers = signers.transpose()?;
        let approval = match files.get(PATH) {
            Some(text) => Approval::read(PATH, text, signers.as_ref())?,
            None => Approval::with(Enforce::default(), Touch::default(), signers.as_ref()),
        };
        Ok((signers, approval))
    }

    /// Reads the file. `signers` are the keys of `rules/approvers`, if there is such a file.
    ///
    /// # Errors
    /// Returns [`RulebookError`] if the YAML, a path or a number is not valid, or if an area names
    /// an approver without a key.
    pub fn read(
        path: &str,
        text: &str,
        signers: Option<&Signers>,
    ) -> Result<Approval, RulebookError> {
        let file: ApprovalFile = yaml::read(path, text)?;
        if file.enforce == Enforce::Gate && signers.is_none() {
            return Err(RulebookError::new(path, None, Fault::NobodyApproves));
        }
        let whole = |fault: Fault| RulebookError::new(path, None, fault);
        let Some(areas) = file.areas else {
            return Ok(Approval::with(file.enforce, file.touch, signers));
        };
        if areas.len() > AREAS_MAX {
            return Err(whole(Fault::Areas(areas.len())));
        }
        let identities = signers.map(Signers::identities).unwrap_or_default();
        let mut before: Vec<Area> = Vec::new();
        let mut from = 0;
        for area in areas {
            let (line, after) = line_from(text, &format!("name: {}", area.name), from);
            let area = checked(area, &before, &identities).map_err(|fault| {
                // An approver or a path may be some lines below the name of its area.
                let named = fault.value().and_then(|it| line_from(text, it, after).0);
                RulebookError::new(path, named.or(line), fault)
            })?;
            before.push(area);
            from = after;
        }
        let rest = before.pop().ok_or_else(|| whole(Fault::NoAreas))?;
        if !rest.fits("") {
            let name = format!("name: {}", rest.name);
            let line = text
                .rfind(&name)
                .and_then(|at| line_from(text, &name, at).0);
            return Err(RulebookError::new(path, line, Fault::NoRest(rest.name)));
        }
        Ok(Approval {
            enforce: file.enforce,
            touch: file.touch,
            before,
            rest,
        })
    }

    /// Returns the approval of a home without areas: any one approver approves any change.
    fn with(enforce: Enforce, touch: Touch, signers: Option<&Signers>) -> Approval {
        let identities = signers.map(Signers::identities).unwrap_or_default();
        Approval {
            enforce,
            touch,
            before: Vec::new(),
            rest: Area {
                name: AreaName::rest(),
                files: vec![String::new()],
                approvers: identities.into_iter().map(str::to_owned).collect(),
                need: 1,
            },
        }
    }

    /// Returns the area of a file, given by its path below the home, with `/`.
    pub fn area_of(&self, path: &str) -> &Area {
        let mut before = self.before.iter();
        before.find(|area| area.fits(path)).unwrap_or(&self.rest)
    }

    /// Returns the approvers of this area among the signers of verified signatures over one change.
    /// Each counts once, and only if what its FIDO key attests is enough. The change is approved in
    /// this area if there are at least [`Area::need`].
    pub fn approving<'a>(
        &self,
        area: &Area,
        signed: impl IntoIterator<Item = &'a Signed>,
    ) -> BTreeSet<&'a str> {
        let signed = signed.into_iter();
        let counted = signed.filter(|signed| {
            area.approvers.contains(&signed.identity) && self.touch.check(signed.token).is_ok()
        });
        counted.map(|signed| signed.identity.as_str()).collect()
    }

    /// Returns all areas, in the order in which they are tried. There is at least one.
    pub fn areas(&self) -> impl Iterator<Item = &Area> {
        self.before.iter().chain([&self.rest])
    }
}

/// Returns a warning for each line of `rules/approvers` that counts for nothing because its key is
/// of another type.
pub fn warnings(signers: &Signers) -> Vec<Warning> {
    let skipped = signers.skipped().iter();
    let warnings = skipped.map(|skipped| {
        let message = format!(
            "a key of type `{}` approves nothing; use ssh-ed25519 or sk-ssh-ed25519@openssh.com",
            skipped.key_type
        );
        Warning {
            what: What::SkippedKey,
            at: RulebookError::new(APPROVERS_PATH, Some(skipped.line), message),
        }
    });
    warnings.collect()
}

fn read_signers(text: &str) -> Result<Signers, RulebookError> {
    if text.len() > SIGNERS_BYTES_MAX {
        let message = format!("larger than {SIGNERS_BYTES_MAX} bytes");
        return Err(RulebookError::new(APPROVERS_PATH, None, message));
    }
    Signers::read(text)
        .map_err(|error| RulebookError::new(APPROVERS_PATH, Some(error.line), error.fault))
}

/// Checks an area against those before it and the identities that have a key.
fn checked(file: AreaInFile, before: &[Area], identities: &BTreeSet<&str>) -> Result<Area, Fault> {
    let AreaInFile {
        name: area,
        files,
        approvers,
        need,
    } = file;
    if before.iter().any(|earlier| earlier.name == area) {
        return Err(Fault::SameName(area));
    }
    for (list, count, most) in [
        ("files", files.len(), FILES_MAX),
        ("approvers", approvers.len(), APPROVERS_MAX),
    ] {
        if !(1..=most).contains(&count) {
            return Err(Fault::Length {
                area,
                list,
                count,
                most,
            });
        }
    }
    let mut paths: Vec<String> = Vec::new();
    for path in files {
        let bare = path.strip_suffix('/').unwrap_or(&path);
        if !path.is_empty() && !is_path(bare) {
            return Err(Fault::Path { area, path });
        }
        let earlier = before
            .iter()
            .flat_map(|earlier| earlier.files.iter().map(|by| (&earlier.name, by)))
            .chain(paths.iter().map(|by| (&area, by)))
            .find(|(_, by)| covers(by, bare));
        if let Some((earlier, by)) = earlier {
            let (earlier, by) = (earlier.clone(), by.clone());
            return Err(Fault::Covered {
                area,
                path,
                earlier,
                by,
            });
        }
        paths.push(bare.to_owned());
    }
    let mut known = BTreeSet::new();
    for approver in approvers {
        if !identities.contains(approver.as_str()) {
            return Err(Fault::NoKey { area, approver });
        }
        if !known.insert(approver.clone()) {
            return Err(Fault::ApproverTwice { area, approver });
        }
    }
    let most = u32::try_from(known.len()).unwrap_or(u32::MAX);
    if *need > most {
        let source = OutOfBounds::above(*need, most);
        return Err(Fault::Need { area, source });
    }
    Ok(Area {
        name: area,
        files: paths,
        approvers: known,
        need: *need,
    })
}

/// Returns whether the text is a relative path in its shortest form, as files of a rulebook have
/// it.
fn is_path(text: &str) -> bool {
    !text.contains(|c: char| c == '\\' || c.is_control())
        && text
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Returns whether `path` is `own` or lies below it; everything lies below the empty path.
fn covers(own: &str, path: &str) -> bool {
    own.is_empty()
        || path
            .strip_prefix(own)
            .is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: &str =
        "ann@x ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICyg3PYERNsWi/Gt8LS5dZTCrLn7cm55zAqgt/KY6HCM\n";
    const BEN: &str =
        "ben@x ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea\n";

    fn files(approval: &str, approvers: Option<&str>) -> BTreeMap<String, String> {
        let mut files = BTreeMap::from([(PATH.to_owned(), approval.to_owned())]);
        files.extend(approvers.map(|text| (APPROVERS_PATH.to_owned(), text.to_owned())));
        files
    }

    fn read(approval: &str) -> Result<Approval, String> {
        let both = format!("{ANN}{BEN}");
        Approval::of(&files(approval, Some(&both)))
            .map(|(_, approval)| approval)
            .map_err(|error| error.to_string())
    }

    fn fault(approval: &str) -> String {
        read(approval).unwrap_err()
    }

    /// A file of this many areas, which differ in name and path; the last one fits everything.
    fn areas(count: usize) -> String {
        let one = |number| {
            let path = if number == count {
                String::new()
            } else {
                format!("rules/{number}")
            };
            format!("- {{name: a{number}, files: ['{path}'], approvers: [ann@x], need: 1}}\n")
        };
        format!("areas:\n{}", (1..=count).map(one).collect::<String>())
    }

    #[test]
    fn a_home_without_the_file_has_one_area_of_all_approvers() {
        let none = BTreeMap::new();
        let (signers, approval) = Approval::of(&none).unwrap();
        assert_eq!(signers, None);
        assert!(approval.area_of("rules/safety.yaml").approvers.is_empty());
        let mut files = files("", Some(&format!("{BEN}{ANN}")));
        files.remove(PATH);
        let (signers, approval) = Approval::of(&files).unwrap();
        assert_eq!(signers.unwrap().identities().len(), 2);
        assert_eq!(approval, read("{}").unwrap());
        let rest = approval.area_of("rules/safety.yaml");
        assert_eq!((rest.name.as_str(), rest.need), ("rest", 1));
        assert!(rest.approvers.iter().eq(["ann@x", "ben@x"]));
        assert_eq!(
            (approval.enforce, approval.touch),
            (Enforce::Review, Touch::Required)
        );
        let other = read("enforce: gate\ntouch: pin\n").unwrap();
        assert_eq!((other.enforce, other.touch), (Enforce::Gate, Touch::Pin));
        assert_eq!(other.area_of(""), rest);
    }

    #[test]
    fn the_first_area_that_fits_wins() {
        let approval = read(
            "areas:\n\
             - {name: limits, files: [rules/safety.yaml, rules/core/], approvers: [ann@x, ben@x], \
                need: 2}\n\
             - {name: folder, files: [rules], approvers: [ann@x], need: 1}\n\
             - {name: rest, files: [''], approvers: [ben@x], need: 1}\n",
        )
        .unwrap();
        for (path, area) in [
            ("rules/safety.yaml", "limits"),
            ("rules/safety.yaml/x", "limits"),
            ("rules/safety.yaml2", "folder"),
            ("rules/core/cap.yaml", "limits"),
            ("rules/core", "limits"),
            ("rules/core-2/cap.yaml", "folder"),
            ("rules/approvers", "folder"),
            ("rulesx", "rest"),
            ("council/roles.yaml", "rest"),
            ("", "rest"),
        ] {
            assert_eq!(approval.area_of(path).name.as_str(), area, "{path}");
        }
        let needs: Vec<u32> = approval.areas().map(|area| area.need).collect();
        assert_eq!(needs, [2, 1, 1]);
    }

    #[test]
    fn counts_are_checked() {
        for (count, is_good) in [(0, false), (1, true), (15, true), (16, true), (17, false)] {
            assert_eq!(read(&areas(count)).is_ok(), is_good, "{count}");
        }
        assert!(fault(&areas(17)).contains("17 areas"));
        assert!(fault("areas: []").contains("`areas` is empty"));
        let with = |need: &str, approvers: &str| {
            read(&format!(
                "areas:\n- name: rest\n  files: ['']\n  approvers: {approvers}\n  need: {need}\n"
            ))
        };
        for (need, is_good) in [("0", false), ("1", true), ("2", true), ("3", false)] {
            let read = with(need, "[ann@x, ben@x]");
            assert_eq!(read.is_ok(), is_good, "{need}");
            if let Err(error) = read {
                assert!(error.starts_with("rules/approval.yaml:"), "{error}");
                assert!(error.contains("need"), "{error}");
            }
        }
        let expected = "rules/approval.yaml:5: area `rest`: `need` is `2`; use a whole number from 1 \
            to 1";
        assert_eq!(with("2", "[ann@x]").unwrap_err(), expected);
        assert!(
            with("1", "[]")
                .unwrap_err()
                .contains("0 entries in `approvers`")
        );
    }

    #[test]
    fn a_path_is_of_a_file_or_folder_and_is_tried() {
        let with = |paths: &str| {
            read(&format!(
                "areas:\n- {{name: a, files: [rules/core], approvers: [ann@x], need: 1}}\n\
                 - name: rest\n  files:\n  - {paths}\n  approvers: [ann@x]\n  need: 1\n"
            ))
        };
        assert!(with("''").is_ok() && with("rules\n  - ''").is_ok());
        for path in [
            "/rules",
            "../x",
            "rules/../x",
            "rules//x",
            ".",
            "rules/.",
            "//",
            "a\\b",
        ] {
            let error = with(&format!("'{path}'\n  - ''")).unwrap_err();
            assert!(error.starts_with("rules/approval.yaml:5: "), "{error}");
            assert!(error.contains("is not the path of a file"), "{error}");
        }
        for path in ["rules/core", "rules/core/", "rules/core/cap.yaml"] {
            let error = with(&format!("''\n  - {path}")).unwrap_err();
            assert!(error.contains("never applies"), "{error}");
        }
        let error = with("rules").unwrap_err();
        let expected = "rules/approval.yaml:3: the last area, `rest`, does not have the path";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn approvers_have_keys_and_areas_have_names() {
        let text =
            "areas:\n- name: rest\n  files: ['']\n  approvers:\n  - ann@x\n  - NAME\n  need: 1\n";
        let error = fault(&text.replace("NAME", "eve@x"));
        let expected = "rules/approval.yaml:6: area `rest` names `eve@x`, who has no usable key";
        assert!(error.starts_with(expected), "{error}");
        assert!(fault(&text.replace("NAME", "ann@x")).contains("`ann@x` twice"));
        let error = Approval::of(&files(&text.replace("NAME", "ben@x"), None)).unwrap_err();
        assert!(
            error.message.contains("`ann@x`, who has no usable key"),
            "{error}"
        );
        let twice = areas(2).replace("a2", "a1");
        assert!(fault(&twice).starts_with("rules/approval.yaml:3: two areas are named `a1`"));
        for (text, line) in [
            ("enforce: gate\nneed: 2\n", 2),
            ("enforce: gates\n", 1),
            ("touch:\n", 1),
            (
                "areas:\n- {name: Rest, files: [''], approvers: [ann@x], need: 1}\n",
                2,
            ),
            (
                "areas:\n- {name: rest, files: [''], approvers: [ann@x]}\n",
                2,
            ),
            (
                "areas:\n- {name: r, files: [''], approvers: [ann@x], need: 1, by: x}\n",
                2,
            ),
        ] {
            let error = fault(text);
            let expected = format!("rules/approval.yaml:{line}: ");
            assert!(error.starts_with(&expected), "{text}: {error}");
        }
    }

    #[test]
    fn approvers_count_once_and_with_the_touch_that_the_file_demands() {
        let signed = |identity: &str, token: Option<(bool, bool)>| Signed {
            identity: identity.to_owned(),
            key: "SHA256:x".to_owned(),
            token: token.map(|(is_present, is_verified)| Token {
                is_present,
                is_verified,
            }),
        };
        let all = [
            signed("ann@x", Some((false, true))),
            signed("ann@x", None),
            signed("ann@x", Some((true, true))),
            signed("ben@x", Some((true, false))),
            signed("eve@x", Some((true, true))),
        ];
        let approval = |touch| {
            read(&format!(
                "touch: {touch}\nareas: [{{name: rest, files: [''], approvers: [ann@x, ben@x], \
                    need: 2}}]"
            ))
        };
        let (required, pin) = (approval("required").unwrap(), approval("pin").unwrap());
        let names = |approval: &Approval, which: std::ops::Range<usize>| {
            let found = approval.approving(approval.area_of("x"), &all[which]);
            found.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(names(&required, 0..5), ["ann@x", "ben@x"]);
        assert_eq!(names(&pin, 0..5), ["ann@x"]);
        assert!(names(&required, 0..1).is_empty(), "no touch");
        assert!(names(&required, 4..5).is_empty(), "not of this area");
        let absent = all[0].token;
        assert_eq!(Touch::Required.check(absent), Err(TouchError::Absent));
        assert_eq!(Touch::Pin.check(absent), Err(TouchError::Absent));
        assert_eq!(Touch::Pin.check(all[3].token), Err(TouchError::Unverified));
    }

    #[test]
    fn a_key_of_another_type_is_a_warning_and_no_approver() {
        let list = format!("{ANN}ben@x ssh-rsa AAAA\n");
        let (signers, approval) =
            Approval::of(&BTreeMap::from([(APPROVERS_PATH.to_owned(), list.clone())])).unwrap();
        assert!(approval.area_of("x").approvers.iter().eq(["ann@x"]));
        let [warning] = &warnings(&signers.unwrap())[..] else {
            panic!("not one warning")
        };
        let expected = "rules/approvers:2: a key of type `ssh-rsa` approves nothing";
        assert!(warning.at.to_string().starts_with(expected), "{warning:?}");
        let named = "areas: [{name: rest, files: [''], approvers: [ben@x], need: 1}]";
        let error = Approval::of(&files(named, Some(&list))).unwrap_err();
        assert!(error.message.contains("no usable key"), "{error}");
    }

    #[test]
    fn a_list_that_cannot_be_read_is_a_fault_with_its_line() {
        let list = format!("{ANN}ben@x ssh-ed25519 AAAA\n");
        let error = Approval::of(&files("{}", Some(&list))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "rules/approvers:2: the key cannot be read"
        );
        let comment = |bytes: usize| "#".repeat(bytes);
        assert!(Approval::of(&files("{}", Some(&comment(SIGNERS_BYTES_MAX)))).is_ok());
        let error = Approval::of(&files("{}", Some(&comment(SIGNERS_BYTES_MAX + 1)))).unwrap_err();
        assert!(error.message.contains("larger than"), "{error}");
    }
}
