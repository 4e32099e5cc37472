// An act on many: a dry run, its count on the button, progress, and what came of it.
import { h } from './vendor/preact.mjs';
import { long } from './calls.mjs';
import { Facts, Mark, num } from './parts.mjs';

// What a report counts beside what was done.
const outcomes = [['maybe_delivered', 'unsure', 'may have been delivered'], ['in_flight', 'flight', 'in flight'],
  ['ended', 'gone', 'had ended by then'], ['failed', 'dead', 'failed']];

// bulk asks before it does what route does to the messages that order selects. verb and past name the act, form has
// fields of the order, and more is said beside the count. Above 1,000, or always if sure, one types a text. again says
// what a repeat would do after the act was broken off.
export async function bulk(ask, { title, route, order, verb, past, form, more, typed, sure, kind,
  again = 'What is done stays done, and to repeat it is safe.' }) {
  const stop = new AbortController(), opened = ask({ title, body: 'Counting…', stop });
  let found;
  try {
    found = await long(route, { ...order, dry_run: true }, () => {}, stop.signal);
  } catch (problem) {
    ask({ title, body: [h(Mark, { is: 'dead', word: 'failed' }), ' ', problem.message] }, opened);
    return;
  }
  const n = found.matched;
  const go = async (values, tell) => {
    const fields = Object.entries(values).filter(([name, value]) => value && name !== 'typed');
    let last = { matched: 0, done: 0 };
    const told = (report) => {
      last = report;
      tell(h(Progress, { report, n, past, again }));
    };
    tell(h(Progress, { report: last, n, past, again }));
    try {
      const report = await long(route, { ...order, ...Object.fromEntries(fields) }, told, stop.signal);
      return h(Result, { report, past, n });
    } catch (problem) {
      if (!last.looked && problem.status) throw problem; // nothing was begun
      const why = stop.signal.aborted ? 'It was stopped.' : `It was broken off: ${problem.message}`;
      return [h('p', null, h(Mark, { is: 'late' }), ` ${why} At least this was done by then. ${again}`),
        h(Result, { report: problem.answer?.report ?? last, past })];
    }
  };
  ask(n ? { title, button: `${verb} ${num(n)}`, go, stop, kind, many: true,
    typed: sure || n > 1000 ? typed : null, body: [
      h('p', null, h('b', null, num(n)), n === 1 ? ' message matches.' : ' messages match.'), more, form] }
    : { title, body: 'No message matches any more.' }, opened);
}

function Progress({ report, n, past, again }) {
  const { matched, done } = report, share = Math.min(matched, n);
  return [h('progress', { max: n, value: share, 'aria-label': past }),
    h('p', null, `${num(done)} of ${num(n)} ${past}`),
    h('p', { class: 'note' }, `Closing this page stops it. ${again}`)];
}

function Result({ report, past, n }) {
  const more = n === undefined ? 0 : report.matched - n;
  const rows = [['done', 'done', past], ...outcomes].filter(([name]) => name === 'done' || report[name]);
  return [h(Facts, { rows: rows.map(([name, is, words]) => [[h(Mark, { is }), words], num(report[name] ?? 0)]) }),
    more > 0 && h('p', { class: 'note' }, `${num(more)} more matched than were counted: they came meanwhile.`),
    more < 0 && h('p', { class: 'note' }, `${num(-more)} did not match any more.`)];
}
