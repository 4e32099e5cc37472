// Actions: what operators did, page by page, and what happened lately.
import { h } from './vendor/preact.mjs';
import { at, Button, Ghost, link, list, Mark, Name, Notice, num, S, Section, Table, to } from './parts.mjs';

const events = ['events', { limit: 200 }, 5 * S];
const actions = (query) => {
  const cursor = query.get('cursor'); // a further page stands still
  return ['actions', cursor ? { limit: 100, cursor } : { limit: 100 }, cursor ? Infinity : 5 * S];
};
export const feeds = (query) => [actions(query), events];

export function Actions({ feed, query, go, who }) {
  const [a, e] = [actions(query), events].map((f) => feed(...f));
  const note = who?.journal === 'off' && 'since the instances started; the log has all of it';
  return h('div', null,
    h('div', { class: 'head' }, h('h1', null, 'Actions')),
    (a.problem ?? e.problem) && h(Notice, null, (a.problem ?? e.problem).message),
    a.data ? h(Section, { title: 'What operators did', note }, h(Done, a.data), h('p', { class: 'note more' },
      a.data.cursor && h(Button, { onClick: () => go({ cursor: a.data.cursor }) }, 'Earlier'),
      query.get('cursor') && [' ', h('button', { type: 'button', class: 'plain', onClick: () => go({ cursor: null }) },
        'the last ones')])) : !a.problem && h(Ghost),
    e.data && h(Section, { title: 'What happened', note: 'since the instances started' }, h(Happened, e.data)));
}

export const Missing = ({ missing }) => missing.length > 0 && h(Notice, null, 'Without what ',
  missing.map((name, i) => [i > 0 && ', ', h(Name, null, name)]), ' would say: no answer.');

function Done({ actions, missing }) {
  if (!actions.length) return [h(Missing, { missing }), h('p', { class: 'lede' }, 'Nobody has operated yet.')];
  return [h(Missing, { missing }), h(Table, { caption: 'what operators did',
    head: [['When'], ['Who'], ['What'], ['On what'], ['Outcome'], ['From', 'wide'], ['At', 'wide']],
    rows: actions.map((a) => {
      const { matched, done, failed, ids, ...on } = a.on, count = done ?? ids;
      return { key: a.id, cells: [h('b', null, h('time', { title: a.at }, at(a.at, { seconds: true }))),
        h(Name, null, a.who), a.what, Object.entries(on).filter(([, value]) => value !== '' && value !== false)
          .map(([name, value], i) => [i > 0 && ', ', `${name.replaceAll('_', ' ')} `, h(Name, null, String(value))]),
        !a.ended ? [h(Mark, { is: 'unsure' }), 'runs, or its instance died']
          : a.problem ? [h(Mark, { is: 'dead' }), a.problem.replaceAll('_', ' ')]
          : [h(Mark, { is: a.dry_run ? 'gone' : 'done' }), a.dry_run ? `dry run: ${num(matched ?? 0)}`
            : count === undefined ? 'done' : `${num(count)} done${failed ? `, ${num(failed)} failed` : ''}`],
        h(Name, null, a.from), h(Name, null, a.instance)] };
    }) })];
}

// What each kind of event is drawn as and called. What goes and comes says itself which.
const kinds = {
  dead: ['dead', 'died'], expired: ['gone', 'expired'], late: ['late', 'left late'], lapsed: ['unsure', 'lease over'],
  rejected: ['refused', 'was refused'], parked: ['held', 'is held back'], opened: ['done', 'leaves again'],
  leader: ['act', ''], store: ['late', ''], journal: ['late', 'journal'], filled: ['act', 'filled'],
  webhook: ['late', 'webhook'], instance: ['late', ''],
};

export function Happened({ events, missing = [] }) {
  if (!events.length) return [h(Missing, { missing }), h('p', { class: 'lede' }, 'Nothing yet.')];
  return [h(Missing, { missing }), h('ol', { class: 'feed' }, events.map((e) => {
    const [mark, word] = kinds[e.kind] ?? ['unsure', e.kind], well = /again|^leads|has come/.test(e.detail ?? '');
    return h('li', { key: e.at + e.kind + e.topic + e.detail },
      h('time', { class: 't', datetime: e.at, title: e.at }, at(e.at, { seconds: true })),
      h(Mark, { is: well ? 'done' : mark }),
      h('span', null,
        e.uid ? [link(to(e.uid), h(Name, null, e.id ?? e.uid)), ' of ',
          list({ topic: e.topic }, h(Name, null, e.topic))]
          : e.kind !== 'instance' && h(Name, null, e.topic ?? e.instance),
        word && ` ${word}`, e.detail && [word ? ': ' : ' ', h('bdi', { class: 'detail' }, e.detail)],
        e.n > 1 && h('small', null, ` and ${num(e.n - 1)} more`)));
  }))];
}
