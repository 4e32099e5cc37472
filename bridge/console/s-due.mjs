// Falls due: how many messages fall due when, of which topics, and which rates will make them late.
import { h } from './vendor/preact.mjs';
import { at, during, Ghost, H, list, M, Mark, Name, Notice, num, Rel, S, Section, span as length, sum,
  Table } from './parts.mjs';
import { Bars, colours, holds, Spark, worstOf } from './charts.mjs';

const spans = { hour: [M, 60], day: [30 * M, 48], week: [3 * H, 56], month: [12 * H, 60] };
const spanOf = (query) => (spans[query.get('span')] ? query.get('span') : 'day');

function forecast(query) {
  const [step, n] = spans[spanOf(query)];
  return ['forecast', { by: 'topic', top: 5, step: `${step / S}s`, until: `${step * n / S}s` }, 15 * S];
}
export const feeds = (query) => [forecast(query)];

export function Due({ feed, width, query, go }) {
  const span = spanOf(query), f = feed(...forecast(query));
  return h('div', null,
    h('div', { class: 'head' }, h('h1', null, 'What falls due in the next'),
      h('div', { class: 'segment', role: 'group', 'aria-label': 'in the next' }, Object.keys(spans).map((word) =>
        h('button', { type: 'button', 'aria-pressed': String(word === span),
          onClick: () => go({ span: word, at: null }) }, word)))),
    f.problem && h(Notice, null, f.problem.message),
    f.data ? h(Steps, { data: f.data, span, width, query, go, next: feed('overview').data?.next })
      : !f.problem && h(Ghost));
}

function Steps({ data, span, width, query, go, next }) {
  const [step] = spans[span], i = query.has('at') ? +query.get('at') : null, chosen = data.steps[i];
  const rows = (data.groups ?? []).map((name, g) => ({ name: h(Name, null, name), key: name, colour: colours[g],
    values: data.steps.map((s) => s.groups[g]) }));
  const others = data.steps.map((s) => s.others ?? 0);
  if (sum(others)) rows.push({ name: 'others', key: '', colour: 'var(--c6)', values: others });
  const pick = (to, focus) => go({ at: String(to) }, focus && `[data-step="${to}"]`);
  return [
    h(Lede, { data, span, next }),
    h('figure', null, h(Bars, { data, step, width, height: width < 560 ? 220 : 290, chosen: i, pick }),
      h('figcaption', { class: 'keys' },
        rows.map((r) => h('span', { class: 'key', key: r.key }, h(Swatch, r))),
        Object.keys(data.held ?? {}).map((word) =>
          h('span', { class: 'key', key: word }, h('i', { class: holds[word][0] }), holds[word][1])))),
    chosen && h(Step, { from: Date.parse(chosen.from), step, count: chosen.count, go,
      rows: rows.map((r) => ({ ...r, n: r.values[i] })).filter((r) => r.n).sort((a, b) => b.n - a.n) }),
    rows.length > 0 && h(Topics, { data, span, rows }),
    data.steps.some((s) => s.behind) && h(Rates, { data, step }),
  ];
}

const Swatch = ({ colour, name }) => [h('i', { class: 'swatch', style: { background: colour } }), name];

function Lede({ data, span, next }) {
  const [step] = spans[span], total = sum(data.steps.map((s) => s.count)), late = worstOf(data);
  return h('p', { class: 'lede' },
    h('b', null, num(total)), total === 1 ? ' message falls' : ' messages fall', ` due in the next ${span}. `,
    data.overdue > 0 && [h('b', null, num(data.overdue)), data.overdue === 1 ? ' is' : ' are', ' overdue already. '],
    !total && next && ['The next one: ', h(Rel, { time: next, how: 'next' }), '. '],
    late && h('span', { class: 'warntext' }, h(Mark, { is: 'late' }),
      ` What falls due ${step > M ? 'between' : 'at'} ${during(late.from, step, ' and ')} leaves up to `,
      h('b', null, length(late.late_ms)),
      ' late: it is more than the rate of ', h(Name, null, late.name), ' lets through.'));
}

// Step is what falls due in a step that somebody has picked.
function Step({ from, step, count, rows, go }) {
  const lies = { due_from: new Date(from).toISOString(), due_to: new Date(from + step - 1).toISOString() };
  const close = h('button', { type: 'button', class: 'plain', onClick: () => go({ at: null }) }, 'close');
  return h(Section, { title: `${at(from)} to ${at(from + step)}`,
    note: [h('b', null, num(count)), count === 1 ? ' falls due ' : ' fall due ', list(lies, 'open as a list'),
      ' ', close] },
  h(Table, { caption: 'topics of the step', head: [['Topic'], ['Fall due', 'n']],
    rows: rows.map((r) => ({ key: r.key, cells: [r.key ? list({ ...lies, topic: r.key }, h(Swatch, r)) : h(Swatch, r),
      num(r.n)] })) }));
}

function Topics({ data, span, rows }) {
  const { exact, read, of } = data.sample;
  return h(Section, { title: 'By topic', note: exact ? `in the next ${span}`
    : `in the next ${span}: the sums are exact, the topics about right, from ${num(read)} of ${num(of)} messages` },
  h(Table, { caption: 'what falls due by topic',
    head: [['Topic'], ['Fall due', 'n'], ['When', 'wide'], ['Largest step']],
    rows: rows.map(({ key, name, colour, values }) => {
      const most = Math.max(...values), when = during(data.steps[values.indexOf(most)].from, spans[span][0]);
      const spark = h(Spark, { values, width: 320, colour, label: `${key || 'others'}, by step` });
      return { key, cells: [h(Swatch, { colour, name }), num(sum(values)), spark,
        h('span', { class: 'nowrap' }, h('b', null, num(most)), `, ${when}`)] };
    }) }));
}

function Rates({ data, step }) {
  const all = data.steps.flatMap((s) => (s.behind ?? []).map((b) => ({ ...b, from: s.from })));
  const latest = (name) => length(Math.max(...all.filter((b) => b.name === name).map((b) => b.late_ms)));
  return h(Section, { title: 'Rates that will be too low', note: 'What is pushed from now on comes on top.' },
    h(Table, { caption: 'patterns whose rate makes messages late',
      head: [['Pattern'], ['From'], ['Late by up to', 'n']],
      rows: [...new Set(all.map((b) => b.name))].map((name) => ({ key: name, cells: [h(Name, null, name),
        during(all.find((b) => b.name === name).from, step), h('b', { class: 'is-late' }, latest(name))] })) }));
}
