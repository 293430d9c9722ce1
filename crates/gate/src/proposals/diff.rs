//! A unified diff of two short texts.

/// Lines of context around a change.
const AROUND: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Kept,
    Removed,
    Added,
}

/// The change from `old` to `new` as a unified diff; empty if there is none.
pub fn unified(path: &str, old: Option<&str>, new: Option<&str>) -> String {
    let a: Vec<&str> = old.unwrap_or_default().lines().collect();
    let b: Vec<&str> = new.unwrap_or_default().lines().collect();
    let steps = steps(&a, &b);
    if steps.iter().all(|(mark, _)| *mark == Mark::Kept) {
        return String::new();
    }
    let name = |side: &str, text: Option<&str>| {
        text.map_or_else(|| "/dev/null".to_owned(), |_| format!("{side}/{path}"))
    };
    let mut out = format!("--- {}\n+++ {}\n", name("a", old), name("b", new));
    let is_near = |at: usize| {
        let (from, to) = (at.saturating_sub(AROUND), at.saturating_add(AROUND));
        let near = steps
            .iter()
            .enumerate()
            .skip(from)
            .take(to.saturating_sub(from).saturating_add(1));
        near.into_iter().any(|(_, (mark, _))| *mark != Mark::Kept)
    };
    let (mut line_a, mut line_b) = (1_usize, 1_usize);
    let mut hunk: Vec<(Mark, &str)> = Vec::new();
    let mut begins = (1_usize, 1_usize);
    for (at, (mark, text)) in steps.iter().enumerate() {
        if is_near(at) {
            if hunk.is_empty() {
                begins = (line_a, line_b);
            }
            hunk.push((*mark, text));
        } else {
            write_hunk(&mut out, begins, &std::mem::take(&mut hunk));
        }
        line_a = line_a.saturating_add(usize::from(*mark != Mark::Added));
        line_b = line_b.saturating_add(usize::from(*mark != Mark::Removed));
    }
    write_hunk(&mut out, begins, &hunk);
    out
}

fn write_hunk(out: &mut String, (a, b): (usize, usize), hunk: &[(Mark, &str)]) {
    if hunk.is_empty() {
        return;
    }
    let lines = |but: Mark| hunk.iter().filter(|(mark, _)| *mark != but).count();
    let (of_a, of_b) = (lines(Mark::Added), lines(Mark::Removed));
    // If a side has no lines, its hunk is numbered by the line before it.
    let at = |line: usize, count: usize| {
        if count == 0 {
            line.saturating_sub(1)
        } else {
            line
        }
    };
    out.push_str(&format!(
        "@@ -{},{of_a} +{},{of_b} @@\n",
        at(a, of_a),
        at(b, of_b)
    ));
    for (mark, text) in hunk {
        out.push(match mark {
            Mark::Kept => ' ',
            Mark::Removed => '-',
            Mark::Added => '+',
        });
        out.push_str(text);
        out.push('\n');
    }
}

/// The edit steps along the longest common subsequence.
fn steps<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<(Mark, &'a str)> {
    let width = b.len().saturating_add(1);
    let mut longest = vec![0_u32; a.len().saturating_add(1).saturating_mul(width)];
    let at = |i: usize, j: usize| i.saturating_mul(width).saturating_add(j);
    for (i, left) in a.iter().enumerate().rev() {
        for (j, right) in b.iter().enumerate().rev() {
            let get = |index: usize| longest.get(index).copied().unwrap_or(0);
            let best = if left == right {
                get(at(i.saturating_add(1), j.saturating_add(1))).saturating_add(1)
            } else {
                get(at(i.saturating_add(1), j)).max(get(at(i, j.saturating_add(1))))
            };
            if let Some(cell) = longest.get_mut(at(i, j)) {
                *cell = best;
            }
        }
    }
    let get = |i: usize, j: usize| longest.get(at(i, j)).copied().unwrap_or(0);
    let (mut i, mut j) = (0_usize, 0_usize);
    let mut steps = Vec::new();
    loop {
        match (a.get(i), b.get(j)) {
            (Some(left), Some(right)) if left == right => {
                steps.push((Mark::Kept, *left));
                i = i.saturating_add(1);
                j = j.saturating_add(1);
            }
            (Some(left), right)
                if right.is_none()
                    || get(i.saturating_add(1), j) >= get(i, j.saturating_add(1)) =>
            {
                steps.push((Mark::Removed, *left));
                i = i.saturating_add(1);
            }
            (_, Some(right)) => {
                steps.push((Mark::Added, *right));
                j = j.saturating_add(1);
            }
            _ => return steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_accepts_the_diff() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
        let new = old.replace("b\n", "B\n").replace("j\n", "");
        let told = unified("f", Some(old), Some(&new));
        let want = "--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n a\n-b\n+B\n c\n d\n e\n@@ -7,4 +7,3 @@\n \
            g\n h\n i\n-j\n";
        assert_eq!(told, want);
        assert_eq!(
            unified("f", None, Some("x\n")),
            "--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+x\n"
        );
        assert_eq!(
            unified("f", Some("x\n"), None),
            "--- a/f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n"
        );
        assert_eq!(unified("f", Some(old), Some(old)), "");
    }
}
