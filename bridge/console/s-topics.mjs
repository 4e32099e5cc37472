// Topics: how many messages each has, what holds them back, and pauses.
import { h } from './vendor/preact.mjs';
import { act, ask as read } from './calls.mjs';
import { Button, Ghost, list, Mark, Name, Notice, num, Rel, S, sum, Table } from './parts.mjs';
import { reasons, resume } from './s-stuck.mjs';

const page = 200;
const most = (query) => Math.min(Math.max(parseInt(query.get('limit') ?? page, 10) || page, page), 1000);
const topics = (query) => ['topics', { limit: most(query) }, 5 * S];
export const feeds = (query) => [topics(query)];

export function Topics({ feed, query, go, who, ask }) {
  const f = feed(...topics(query)), part = query.get('part') ?? '';
  const find = h('input', { type: 'search', value: part, placeholder: 'a part of a name',
    'aria-label': 'filter by name', onInput: (e) => go({ part: e.target.value || null }) });
  return h('div', null,
    h('div', { class: 'head' }, h('h1', null, 'Topics'), h('div', { class: 'acts' }, find)),
    f.problem && h(Notice, null, f.problem.message),
    f.data ? [h(Pauses, { paused: f.data.paused, may: who?.operate, ask }),
      h(Counts, { ...f.data, part, query, go, may: who?.operate, ask })] : !f.problem && h(Ghost));
}

const Pauses = ({ paused, may, ask }) => paused.length > 0 && h('ul', { class: 'also' }, paused.map((p) =>
  h('li', { key: p.pattern }, h(Mark, { is: 'held', word: 'paused' }),
    h('span', null, h('b', null, h(Name, null, p.pattern)), ' is paused by ', h(Name, null, p.by), ', for ',
      h(Rel, { time: p.at, how: 'for' })),
  may && h(Button, { onClick: () => ask(resume({ name: p.pattern })) }, 'Resume…'))));

function Counts({ topics, cursor, part, query, go, may, ask }) {
  const rows = topics.filter((t) => t.topic.includes(part));
  if (!rows.length) {
    return h('p', { class: 'lede' }, part ? 'No topic has this in its name.' : 'No topic holds messages.');
  }
  return [
    h(Table, { caption: 'topics', head: [['Topic'], ['Waiting', 'n'], ['Ready', 'n'], ['In flight', 'n'],
      ['Leased', 'n'], ['Dead', 'n'], ['Settings', 'wide'], ['Held back'], ['Act', 'acts']],
    rows: rows.map((t) => ({ key: t.topic, cells: [
      list({ topic: t.topic }, h(Name, null, t.topic)), ...[t.waiting, t.ready, t.in_flight - t.leased, t.leased]
        .map((n) => (n ? num(n) : '–')),
      t.dead ? list({ state: 'dead', topic: t.topic }, num(t.dead)) : '–',
      t.settings ? h('small', null, settings(t)) : '–',
      t.why ? [h(Mark, { is: (reasons[t.why.word] ?? ['unsure'])[0] }),
        h('bdi', { class: 'detail' }, t.why.detail)]
        : t.paused ? [h(Mark, { is: 'held' }), h(Name, null, t.paused.pattern), ' is paused'] : '–',
      !may ? '–' : t.paused ? h(Button, { onClick: () => ask(resume({ name: t.paused.pattern })) }, 'Resume…')
        : h(Button, { onClick: () => pause(ask, t.topic) }, 'Pause…')] })) }),
    h('p', { class: 'note more' }, cursor && most(query) < 1000
      && [h(Button, { onClick: () => go({ limit: '1000' }) }, 'More'), ' '],
    `${num(rows.length)}${cursor ? `; only the first ${num(topics.length)} by name are looked at` : ''}`)];
}

// settings are those that are set, and their pattern where that is not the topic.
const settings = ({ topic, settings: { pattern, ...set } }) => [
  pattern !== topic && [h(Name, null, pattern), ': '],
  Object.entries(set).map(([name, value]) => `${name.replaceAll('_', ' ')}${value === true ? '' : ` ${value}`}`)
    .join(', '),
];

// pause says how many fall due soon before it holds them back.
async function pause(ask, topic) {
  let n;
  try {
    n = sum((await read('forecast', { topic, step: '1h', until: '1h' })).steps.map((s) => s.count));
  } catch { /* the act does not depend on it */ }
  ask({ title: ['Pause ', h(Name, null, topic), '?'], button: 'Pause', body: [
    h('p', null, 'What falls due on it waits until it is resumed. Pushes and cancels work as before, and times to live '
      + 'keep running.'),
    n !== undefined && h('p', null, 'In the next hour ', h('b', null, num(n)), n === 1 ? ' falls due.' : ' fall due.')],
  go: async () => {
    const { in_effect } = await act('pause', { topic });
    return `It is paused${in_effect ? '.' : '; the leader has not said yet that it knows.'}`;
  } });
}
