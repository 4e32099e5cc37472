// Failed: what messages died of, the most first, and their requeue by cause.
import { h } from './vendor/preact.mjs';
import { bulk } from './bulk.mjs';
import { Spark } from './charts.mjs';
import { Button, Field, Ghost, link, list, Mark, Name, Notice, num, Rel, S, sum, Table, to } from './parts.mjs';

const groups = ['dead_groups', {}, 10 * S];
export const feeds = () => [groups];

export function Failed({ feed, who, ask, query, go, wide }) {
  const f = feed(...groups);
  return h('div', null,
    h('div', { class: 'head' }, h('h1', null, 'Failed'), f.data && h(Lede, f.data)),
    f.problem && h(Notice, null, f.problem.message),
    f.data ? h('ul', { class: 'groups' }, f.data.groups.map((g) => h(Group, { g, to: f.data.to, key: g.cause, ask, wide,
      may: who?.operate, open: query.get('cause') === g.cause,
      toggle: () => go({ cause: query.get('cause') === g.cause ? null : g.cause }) }))) : !f.problem && h(Ghost));
}

function Lede({ groups, others = 0, looked }) {
  const n = sum(groups.map((g) => g.count)) + others, hour = sum(groups.map((g) => g.by_hour.at(-1)));
  if (!n) return h('p', { class: 'note' }, looked.whole ? 'Nothing is dead.'
    : `Nothing among the first ${num(looked.read)} that were looked at; there are more.`);
  return h('p', { class: 'note' },
    h('b', null, num(n)), n === 1 ? ' is dead, of ' : ' are dead, of ',
    h('b', null, num(groups.length)), groups.length === 1 ? ' cause' : ' causes', others > 0 && ' and others',
    hour > 0 && ['; ', h('b', null, num(hour)), ' died in the last hour'],
    looked.whole ? '.' : `; these are of the first ${num(looked.read)} only.`);
}

function Group({ g, to: until, may, ask, open, toggle, wide }) {
  return h('li', { class: open ? 'open' : '' },
    h('div', { class: 'group' },
      h('button', { type: 'button', class: 'what', 'aria-expanded': String(open), onClick: toggle },
        h('span', { class: 'count' }, num(g.count)),
        h('span', { class: 'cause' }, h('b', null, h(Name, null, g.topic)),
          h('span', { class: 'reason' }, h('bdi', null, g.text || g.word)))),
      g.uncertain > 0 && h('p', { class: 'warntext' }, h(Mark, { is: 'unsure' }),
        ` ${num(g.uncertain)} may have been delivered`),
      h('div', { class: 'shape' },
        h(Spark, { values: g.by_hour, width: wide ? 168 : 120, height: 28, colour: 'var(--deadF)',
          label: 'deaths by hour of the last day' }),
        h('small', null, 'last day, by hour')),
      h('dl', { class: 'times' }, h('dt', null, 'last'), h('dd', null, h(Rel, { time: g.last })),
        h('dt', null, 'first'), h('dd', null, h(Rel, { time: g.first }))),
      may && h('div', { class: 'acts' }, h(Button, { onClick: () => bulk(ask, requeue(g, until)) }, 'Requeue…'), ' ',
        h(Button, { kind: 'danger', onClick: () => bulk(ask, purge(g, until)) }, 'Purge…'))),
    open && [h(Table, { caption: 'the latest of them',
      head: [['Message'], ['Died', 'n'], ['Tries', 'n'], ['Reason']],
      rows: g.latest.map((m) => ({ key: m.uid, cells: [link(to(m.uid), h(Name, null, m.id)), h(Rel, { time: m.at }),
        num(m.attempt), h('span', { class: 'reason' }, h('bdi', null, m.reason || '–'))] })) }),
    g.count > g.latest.length && h('p', { class: 'note more' },
      list({ state: 'dead', topic: g.topic }, 'All that are dead of ', h(Name, null, g.topic)))]);
}

// Examples are reasons that the cause has in one.
const Examples = ({ g }) => h('ul', { class: 'reason' }, [...new Set(g.latest.map((m) => m.reason))].map((reason) =>
  h('li', { key: reason }, h('bdi', null, reason || '–'))));

const title = (verb, g) => [`${verb} `, h(Name, null, g.topic), ', ', h('bdi', null, g.text || g.word), '?'];
// What died since the reading is left alone.
const order = (g, until) => ({ cause: g.cause, to: until });

const requeue = (g, until) => ({
  title: title('Requeue', g), route: 'dead_requeue', order: order(g, until), verb: 'Requeue', past: 'requeued',
  typed: g.topic,
  more: [h(Examples, { g }), g.uncertain > 0 && h('p', { class: 'warntext' }, h(Mark, { is: 'unsure' }),
    ` ${num(g.uncertain)} may have been delivered already, and stay uncertain.`)],
  form: h('div', { class: 'form' },
    h(Field, { label: 'First due' }, h('select', { name: 'delay' },
      choices({ now: '', 'in 10 minutes': '10m', 'in 1 hour': '1h' }))),
    h(Field, { label: 'Spread over' }, h('select', { name: 'spread' },
      choices({ 'at once': '', '1 minute': '1m', '10 minutes': '10m', '1 hour': '1h', '1 day': '24h' })))),
});

const choices = (all) => Object.entries(all).map(([words, value]) => h('option', { value }, words));

const purge = (g, until) => ({
  title: title('Purge', g), route: 'dead_purge', order: order(g, until), verb: 'Purge', past: 'purged', typed: g.topic,
  sure: true, kind: 'danger', more: [h(Examples, { g }), h('p', null, 'They end for good, and cannot be requeued.')],
});
