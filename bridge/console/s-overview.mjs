// Overview: is it well and, if not, why; what left in the last hour and what comes in the next one; what is held here.
import { h } from './vendor/preact.mjs';
import { resume } from './s-stuck.mjs';
import { at, Button, link, M, Mark, Name, Notice, num, Rel, S, Section, span, sum, units } from './parts.mjs';
import { Happened } from './s-actions.mjs';
import { Bars, Lateness, worstOf } from './charts.mjs';

const forecast = ['forecast', { by: 'topic', top: 5 }, 15 * S], series = ['series', {}, 10 * S];
const lately = ['events', { limit: 6 }, 5 * S];
export const feeds = () => [forecast, series, lately];

const marks = { stop: 'dead', warn: 'late', held: 'held', note: 'gone' };

// The first sentence, by the level that the server has judged. away is for how long no instance has answered.
function verdict(o, away) {
  const { waiting, ready, in_flight, dead } = o.messages ?? {}, out = ready + in_flight;
  const overdue = sum((o.overdue ?? []).map((x) => x.count));
  if (away) {
    return { level: 'stop', mark: 'unsure', rest: [],
      text: `No instance has answered this page for ${span(away)}. What stands here is from before that.` };
  }
  switch (o.level) {
    case 'stop': case 'warn': {
      const [c, ...rest] = o.conditions, { detail } = c;
      return { level: o.level, mark: marks[o.level], c, rest,
        text: `${detail.replace(/^[a-z]+ /, (word) => word[0].toUpperCase() + word.slice(1))}.` };
    }
    case 'held': {
      const most = o.conditions.find((c) => c.level === 'held' && 2 * c.count > overdue);
      return { level: 'held', mark: 'held', rest: o.conditions, text: [
        h('span', { class: 'lead-in' }, 'What may leave, leaves on time. '),
        h('b', null, num(overdue)), overdue === 1 ? ' due message is held back' : ' due messages are held back',
        most && [most.count < overdue && ', most of them', ' because ', h('bdi', null, most.detail.split(';')[0])],
        '.'] };
    }
  }
  return { level: 'well', mark: 'done', rest: o.conditions, text: waiting > 0 ? [
    'All is well. Nothing is late; ',
    link('due', h('b', null, num(waiting)), waiting === 1 ? ' message waits' : ' messages wait'),
    o.next && [', and the next leaves ', h(Rel, { time: o.next, how: 'next' })], '.',
  ] : out > 0 ? ['All is well. Nothing waits for its time; ', h('b', null, num(out)),
    out === 1 ? ' is ready or on its way.' : ' are ready or on their way.']
    : ['All is well, and nothing waits.', !dead && !o.last_hour?.accepted
      && ' Push a first message, and watch it here.'] };
}

// Lasting is for how long a condition holds. Of these an instance knows only since when somebody looks.
const seen = ['quarantined', 'intake_waits', 'set_aside'];
const Lasting = ({ c }) => [seen.includes(c.word) ? 'for at least ' : 'for ', h(Rel, { time: c.since, how: 'for' })];

// Where to look at what a condition is about, by its word or else by its level.
const places = { rejects: 'rejected', rejects_dropped: 'rejected', dying: 'failed', webhook_fails: 'pull',
  unpulled: 'pull', paused: 'topics', overdue: 'stuck', intake_waits: 'stuck', set_aside: 'stuck', held: 'stuck',
  stop: 'cluster', warn: 'cluster' };

function Condition({ c, may, ask }) {
  const detail = h('bdi', null, c.detail), place = places[c.word] ?? places[c.level];
  return h('li', { 'data-word': c.word }, h(Mark, { is: marks[c.level], word: c.level }), h('span', null,
    place ? link(place, detail) : detail,
    c.by && [', by ', h(Name, null, c.by)],
    (c.level !== 'note' || c.word === 'paused') && c.since !== c.oldest && [', ', h(Lasting, { c })],
    c.count > 0 && [': ', h('b', null, num(c.count)), c.level === 'held' && ' due'],
    c.oldest && [', the oldest ', h(Rel, { time: c.oldest, how: 'late' })]),
  may && c.word === 'paused' && h(Button, { onClick: () => ask(resume(c)) }, 'Resume…'));
}

// Ledger is a column of figures: mark, name, figure, and what else there is to say of it.
function Ledger({ title, rows }) {
  return h('section', null, h('h2', null, title), h('dl', null, rows.map(([mark, name, value, more], i) =>
    h('div', { class: 'line', key: i },
      h('dt', null, h(Mark, { is: mark }), name, more && h('small', null, more)),
      h('dd', null, typeof value === 'number' ? num(value) : value ?? '–')))));
}

function Ledgers({ o }) {
  const { waiting, ready, in_flight, leased, dead } = o.messages ?? {}, { backlog, aside, rejects } = o.intake ?? {};
  const { mode, lag } = o.journal, hour = o.last_hour;
  const asked = !o.conditions.some((c) => c.word === 'election_unknown'); // who leads is known then, if anybody does
  const overdue = o.overdue ?? [], oldest = overdue.map((x) => x.oldest).sort()[0];
  const is = (n, mark) => (n ? mark : 'gone');
  return h('div', { class: 'ledger' },
    h(Ledger, { title: 'Held here', rows: [
      ['waiting', link('messages', 'waiting'), waiting, o.next && ['next ', h(Rel, { time: o.next, how: 'next' })]],
      ['flight', 'in flight', in_flight],
      ['waiting', 'ready to be pulled', ready],
      ['flight', 'leased', leased],
      [is(oldest, 'held'), 'overdue', o.messages && sum(overdue.map((x) => x.count)),
        oldest && ['oldest ', h(Rel, { time: oldest, how: 'late' })]]] }),
    hour && h(Ledger, { title: 'In the last hour', rows: [
      [is(hour.accepted, 'waiting'), 'accepted', hour.accepted],
      [is(hour.delivered, 'done'), 'delivered', hour.delivered],
      [is(hour.late, 'late'), 'of them late', hour.late],
      ['gone', 'canceled', hour.canceled],
      ['gone', 'expired', hour.expired]] }),
    h(Ledger, { title: 'Ended badly', rows: [
      [is(dead, 'dead'), link('failed', 'dead'), dead, hour?.dead > 0 && `${num(hour.dead)} in the last hour`],
      [is(rejects, 'refused'), link('rejected', 'rejected'), rejects,
        hour?.rejected > 0 && `${num(hour.rejected)} in the last hour`],
      [is(aside, 'unsure'), 'set aside', aside],
      [is(backlog, 'waiting'), 'in the intake', backlog],
      [is(lag?.changes, 'waiting'), 'not in the journal', lag?.changes]] }),
    h(Ledger, { title: 'Under it', rows: [
      [o.leader ? 'done' : 'dead', link('cluster', 'leads'),
        o.leader ? h(Name, null, o.leader.instance) : asked ? 'nobody' : 'not known', o.term && `term ${o.term}`],
      [!o.healthy ? 'dead' : o.gone || o.healthy < o.instances ? 'late' : 'done', 'instances well',
        asked ? `${o.healthy} of ${o.instances}` : 'not known', o.gone > 0 && `${num(o.gone)} gone`],
      [is(mode !== 'off', 'done'), 'journal', mode,
        lag?.oldest && [h(Rel, { time: lag.oldest, how: 'for' }), ' behind']],
      [o.clocks.spread_ms > S ? 'unsure' : 'done', 'clocks apart', span(o.clocks.spread_ms),
        `${o.clocks.voters} vote`]] }));
}

// Tide is the next hour and, once something has left, the last one.
function Tide({ f, past, hour, width, wide }) {
  if (!f.data) return f.problem ? h(Notice, null, f.problem.message) : h('div', { class: 'ghost' }, h('i'));
  const late = worstOf(f.data), due = sum(f.data.steps.map((s) => s.count));
  return h('figure', { class: 'tidebox' },
    h('figcaption', null,
      past && h('span', null, h('b', null, num(hour.delivered)), ' left in the last hour',
        hour.late > 0 && [h('span', { class: 'key' }, h('i', { class: 'lateF' })), num(hour.late), ' late'],
        past.missing.length > 0 && [', without ', past.missing.map((name) => [' ', h(Name, null, name)])]),
      h('span', null, h('b', null, num(due)), due === 1 ? ' falls due' : ' fall due', ' in the next hour',
        late && [', ', h('span', { class: 'warntext' }, h(Mark, { is: 'late' }), ` at ${at(late.from)} the rate of `,
          h(Name, null, late.name), ' makes some ', h('b', null, span(late.late_ms)), ' late')]),
      h('span', null, link('due', 'By topic'))),
    h(Bars, { data: f.data, before: past, step: M, width, height: wide ? 216 : 170 }));
}

const Late = ({ data, hour, width }) => h(Section, { title: 'Lateness', note: ['half left within about ',
  h('b', null, units(span(hour.p50_ms))), ' of their time, 99 of 100 within about ',
  h('b', null, units(span(hour.p99_ms)))] }, h(Lateness, { data, width }));

// First is how to push a first message.
function First() {
  const { origin, port } = location, server = port === '7070' ? '' : ` --server ${origin}`;
  const message = '{"topic":"demo.hello","body":"hello","delay":"20s"}';
  return h('pre', { class: 'first', tabindex: 0 },
    `tarry push demo.hello --delay 20s --body hello${server}\n\ncurl -s ${origin}/v1/messages -d '${message}'`);
}

export function Overview({ feed, width, wide, away, who, ask }) {
  const o = feed('overview').data, v = verdict(o, away), m = o.messages, past = feed(...series).data;
  const happened = feed(...lately).data?.events;
  const nothing = m && !m.waiting && !m.in_flight && !m.ready && !m.dead && o.level === 'well'
    && !o.last_hour?.accepted;
  return h('div', { class: 'overview' },
    h('div', { class: `verdict ${v.level}` }, h(Mark, { is: v.mark, size: 26, word: v.level }), h('div', null,
      h('div', { role: 'status' }, h('h1', { class: 'sentence' }, v.text)),
      v.c && h('p', { class: 'note' }, h(Lasting, v)),
      v.rest.length > 0 && h('ul', { class: 'also' }, v.rest.map((c) =>
        h(Condition, { c, may: who?.operate, ask, key: c.word + c.name }))))),
    nothing ? h(First)
      : h(Tide, { f: feed(...forecast), past: o.last_hour?.delivered > 0 && past, hour: o.last_hour, width, wide }),
    h(Ledgers, { o }),
    h('div', { class: 'pair' }, past && o.last_hour?.p99_ms > 0
      && h(Late, { data: past, hour: o.last_hour, width: innerWidth > 1080 ? (width - 40) / 2 : width }),
    happened?.length > 0 && h(Section, { title: 'Lately', note: link('actions', 'All') },
      h(Happened, { events: happened }))));
}
