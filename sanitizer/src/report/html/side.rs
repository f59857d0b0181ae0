//! One side of a race as the page shows it: the thread, the access, and the stack.

use crate::report::clean::clean;
use crate::report::excerpt::marked;
use crate::report::locks::holds;
use crate::report::model::{Access, Excerpt, LiveValue, Role, StackFrame};
use crate::report::words::{capitalized, creator, file_name, padded, routine, source_place, what};

/// See the module.
pub(crate) struct SideView {
    /// `stalled` or `racing`.
    pub(crate) role: &'static str,
    pub(crate) title: String,
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) frames: Vec<FrameView>,
    /// The stack goes on.
    pub(crate) is_cut: bool,
}

pub(crate) struct FrameView {
    pub(crate) number: usize,
    pub(crate) function: Option<String>,
    pub(crate) place: Option<String>,
    /// `module+offset`, or the address where no module is known.
    pub(crate) code: String,
    pub(crate) build_id: Option<String>,
    pub(crate) inlined: bool,
    pub(crate) source: Option<SourceView>,
}

pub(crate) struct SourceView {
    pub(crate) lines: Vec<LineView>,
    pub(crate) changed: bool,
}

pub(crate) struct LineView {
    pub(crate) number: u32,
    /// The access is in this line.
    pub(crate) is_here: bool,
    pub(crate) before: String,
    /// The character at the column.
    pub(crate) marked: String,
    pub(crate) after: String,
}

impl SideView {
    pub(super) fn new(access: &Access) -> Self {
        let what = what(access);
        let title = match access.role {
            Role::Stalled => capitalized(what),
            Role::Racing => format!("Concurrent {what}"),
        };
        Self {
            role: access.role.name(),
            title: format!("{title} of size {}", access.size),
            facts: facts(access),
            frames: (0..)
                .zip(&access.stack)
                .map(|(number, frame)| FrameView::new(number, frame))
                .collect(),
            is_cut: access.stack_truncated,
        }
    }
}

fn facts(access: &Access) -> Vec<(&'static str, String)> {
    let name = clean(&access.thread_name);
    let mut facts = vec![("Thread", format!("'{name}' (tid={})", access.tid))];
    facts.extend((access.thread_start.iter()).map(|start| ("Runs", routine(start))));
    facts.extend((access.created_by.iter()).map(|creation| ("Created by", creator(creation))));
    facts.push(("Holds", holds(access)));
    facts.push(("Address", padded(access.address)));
    facts.push(("Instruction", access.pc.to_string()));
    let call = access.system_call.iter();
    facts.extend(call.map(|call| ("System call", format!("{}(2)", clean(call)))));
    facts.extend(access.block.iter().map(|block| {
        let (number, size, address) = (block.number, block.size, block.address);
        let text = format!("{number}: {size} bytes at {address}");
        ("Basic block", text)
    }));
    facts.extend(access.live_values.iter().map(|live| ("Live", lives(live))));
    facts
}

fn lives(live: &LiveValue) -> String {
    let LiveValue {
        record,
        place,
        size,
        value,
    } = live;
    let place = clean(place);
    let value = value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    format!("{place} = {value}, {size} bytes (stack map {record})")
}

impl FrameView {
    fn new(number: usize, frame: &StackFrame) -> Self {
        let name = |name: &String| clean(name).into_owned();
        Self {
            number,
            function: frame.function.as_ref().map(name),
            place: source_place(frame),
            code: match &frame.module {
                Some(module) => format!("{}+{}", clean(file_name(module)), frame.offset),
                None => frame.pc.to_string(),
            },
            build_id: frame.build_id.as_ref().map(name),
            inlined: frame.inlined,
            source: (frame.source.as_ref()).map(|source| SourceView::new(frame, source)),
        }
    }
}

impl SourceView {
    fn new(frame: &StackFrame, excerpt: &Excerpt) -> Self {
        let lines = excerpt.lines.iter().map(|line| {
            let [before, marked, after] = marked(frame, line);
            LineView {
                number: line.line,
                is_here: frame.line == Some(line.line),
                before,
                marked,
                after,
            }
        });
        Self {
            lines: lines.collect(),
            changed: excerpt.changed,
        }
    }
}
