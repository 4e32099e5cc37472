// Actions: what operators did, and what happened meanwhile, on all instances since they started.
import { h } from './vendor/preact.mjs';
import { at, Ghost, link, list, Mark, Name, Notice, num, S, Section, Table, to } from './parts.mjs';

const actions = ['actions', { limit: 200 }, 5 * S], events = ['events', { limit: 200 }, 5 * S];
export const feeds = () => [actions, events];

export function Actions({ feed }) {
  const [a, e] = [actions, events].map((f) => feed(...f)), note = 'since the instances started; the log has all of it';
  return h('div', null,
    h('div', { class: 'head' }, h('h1', null, 'Actions')),
    (a.problem ?? e.problem) && h(Notice, null, (a.problem ?? e.problem).message),
    a.data ? h(Section, { title: 'What operators did', note }, h(Done, a.data)) : !a.problem && h(Ghost),
    e.data && h(Section, { title: 'What happened' }, h(Happened, e.data)));
}

const Missing = ({ missing }) => missing.length > 0 && h(Notice, null, 'Without what ',
  missing.map((name, i) => [i > 0 && ', ', h(Name, null, name)]), ' would say: no answer.');

function Done({ actions, missing }) {
  if (!actions.length) return [h(Missing, { missing }), h('p', { class: 'lede' }, 'Nobody has operated yet.')];
  return [h(Missing, { missing }), h(Table, { caption: 'what operators did',
    head: [['When'], ['Who'], ['What'], ['On what'], ['Outcome'], ['From', 'wide'], ['At', 'wide']],
    rows: actions.map((a) => {
      const { matched, done, failed, ids, ...on } = a.on, count = done ?? ids;
      return { key: a.at + a.who + a.what + a.instance, cells: [h('b', null, h('time', { title: a.at }, at(a.at))),
        h(Name, null, a.who), a.what, Object.entries(on).filter(([, value]) => value !== '' && value !== false)
          .map(([name, value], i) => [i > 0 && ', ', `${name.replaceAll('_', ' ')} `, h(Name, null, String(value))]),
        a.problem ? [h(Mark, { is: 'dead' }), a.problem.replaceAll('_', ' ')]
          : [h(Mark, { is: a.dry_run ? 'gone' : 'done' }), a.dry_run ? `tried out: ${num(matched ?? 0)}`
            : count === undefined ? 'done' : `${num(count)} done${failed ? `, ${num(failed)} failed` : ''}`],
        h(Name, null, a.from), h(Name, null, a.instance)] };
    }) })];
}

// What each kind of event is drawn as and called. What goes and comes says itself which.
const kinds = {
  dead: ['dead', 'died'], expired: ['gone', 'expired'], late: ['late', 'left late'], lapsed: ['unsure', 'lease over'],
  rejected: ['refused', 'was refused'], parked: ['held', 'is held back'], opened: ['done', 'leaves again'],
  leader: ['act', ''], store: ['late', ''], journal: ['late', 'journal'], filled: ['act', 'filled'],
  webhook: ['late', 'webhook'],
};

export function Happened({ events, missing = [] }) {
  if (!events.length) return [h(Missing, { missing }), h('p', { class: 'lede' }, 'Nothing yet.')];
  return [h(Missing, { missing }), h('ol', { class: 'feed' }, events.map((e) => {
    const [mark, word] = kinds[e.kind] ?? ['unsure', e.kind], well = /again|^leads/.test(e.detail ?? '');
    return h('li', { key: e.at + e.kind + e.topic + e.detail },
      h('time', { class: 't', datetime: e.at, title: e.at }, at(e.at)), h(Mark, { is: well ? 'done' : mark }),
      h('span', null,
        e.uid ? [link(to(e.uid), h(Name, null, e.id ?? e.uid)), ' of ',
          list({ topic: e.topic }, h(Name, null, e.topic))] : h(Name, null, e.topic ?? e.instance),
        word && ` ${word}`, e.detail && [word ? ': ' : ' ', h('bdi', { class: 'detail' }, e.detail)],
        e.n > 1 && h('small', null, ` and ${num(e.n - 1)} more`)));
  }))];
}
