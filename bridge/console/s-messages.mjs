// Messages: a list by topic, state, due time and key, or of what holds messages back; and what a search finds.
import { h } from './vendor/preact.mjs';
import { bulk } from './bulk.mjs';
import { Button, Field, Ghost, Name, Notice, num, S } from './parts.mjs';
import { Everywhere, Rows } from './s-message.mjs';

const filters = ['topic', 'state', 'due_from', 'due_to', 'key', 'held', 'name'], page = 50;
const most = (query) => Math.min(Math.max(parseInt(query.get('limit') ?? page, 10) || page, page), 1000);

function list(query) {
  const asked = Object.fromEntries(filters.map((name) => [name, query.get(name)]).filter(([, value]) => value));
  if (!asked.held) asked.state = stateOf(query);
  if (asked.state === all) delete asked.state;
  // Further pages stand still.
  return ['list', { ...asked, limit: most(query) }, most(query) > 2 * page ? Infinity : 5 * S];
}
export const feeds = (query) => [list(query)];

// What lives comes first: the journal also has all that has ended.
const live = 'waiting,ready,in_flight', all = 'all';
const states = [live, 'waiting', 'ready', 'in_flight', 'dead', 'delivered', 'canceled', 'expired', all];
const stateOf = (query) => (states.includes(query.get('state')) ? query.get('state') : live);

export function Messages({ feed, query, go, who, ask }) {
  const f = feed(...list(query)), group = query.get('held'), shown = f.data?.messages;
  const submit = (e) => {
    e.preventDefault();
    const given = [...new FormData(e.target)].map(([name, text]) => [name, text.trim() || null]);
    go({ limit: null, ...Object.fromEntries(given) });
  };
  const text = (name, label, placeholder) => h(Field, { label }, h('input', { name, placeholder, autocomplete: 'off',
    spellcheck: false, defaultValue: query.get(name) ?? '', key: query.get(name) }));
  return h('div', null,
    h('div', { class: 'head' }, h('h1', null, 'Messages'),
      group && h('p', { class: 'note' }, `held back: ${group.replaceAll('_', ' ')}, `,
        h(Name, null, query.get('name') ?? ''), ' ',
        h('button', { type: 'button', class: 'plain', onClick: () => go({ held: null, name: null }) }, 'all messages')),
      who?.operate && !group && h(Acts, { query, ask })),
    !group && h('form', { class: 'filters', onSubmit: submit },
      text('topic', 'Topic or pattern', 'any'),
      h(Field, { label: 'State' }, h('select', { name: 'state', key: stateOf(query) }, states.map((value) =>
        h('option', { value, selected: value === stateOf(query) },
          value === live ? 'live' : value.replace('_', ' '))))),
      text('due_from', 'Due from', 'any, or 1h'), text('due_to', 'Due to', 'any, or 1d'), text('key', 'Key', 'any'),
      h(Button, { type: 'submit' }, 'Show')),
    f.problem && h(Notice, null, f.problem.message),
    f.data?.order && h(Notice, { mark: 'gone' },
      'The journal is off: this is what the store holds, part by part, and only what has not ended or is dead.'),
    shown ? [shown.length ? h(Rows, { messages: shown, caption: 'messages by due time' })
      : h('p', { class: 'lede' }, 'No message matches.'),
    shown.length > 0 && h('p', { class: 'note more' }, f.data.cursor && most(query) < 1000
      && [h(Button, { onClick: () => go({ limit: String(most(query) + 4 * page) }) }, 'More'), ' '],
    `${num(shown.length)}${f.data.cursor || f.data.looked?.whole === false ? '; there are more' : ''}`)]
      : !f.problem && h(Ghost));
}

// Acts on all that the filter selects and that wait.
function Acts({ query, ask }) {
  const order = Object.fromEntries(['topic', 'key', 'due_from', 'due_to'].map((name) => [name, query.get(name)])
    .filter(([, value]) => value));
  if (!Object.keys(order).length || ![live, 'waiting', 'ready'].includes(stateOf(query))) return null;
  const typed = order.topic ?? order.key ?? 'all';
  return h('div', { class: 'acts' },
    h(Button, { onClick: () => bulk(ask, { title: 'Move all that match?', route: 'reschedule_many',
      order: { ...order, shift: '0s' }, verb: 'Move', past: 'moved', typed,
      more: h('p', null, 'Those that wait are moved, whatever state is shown.'),
      form: h(Field, { label: 'By how much: 10m, 2h, -30m' },
        h('input', { name: 'shift', required: true, autocomplete: 'off' })) }) },
    'Move all…'), ' ',
    h(Button, { kind: 'danger', onClick: () => bulk(ask, { title: 'Cancel all that match?', route: 'cancel_many', order,
      verb: 'Cancel', past: 'canceled', typed, sure: true, kind: 'danger',
      more: h('p', null, 'Those that wait are canceled, whatever state is shown.') }) }, 'Cancel all…'));
}

// What a search finds is what has the text as its id, its key or its topic.
const finds = (query) => {
  const text = query.get('text') ?? '';
  const short = new TextEncoder().encode(text).length <= 128; // as ids and keys are
  const by = [...short ? ['id', 'key'] : [], .../^[^\s*>]+$/.test(text) || !short ? ['topic'] : []];
  return by.map((name) => ['why', { [name]: text }, Infinity]);
};
export const foundFeeds = finds;

export function Found({ feed, query }) {
  const all = finds(query).map((f) => feed(...f)), known = all.filter((f) => f.data).map((f) => f.data);
  const problem = all.every((f) => f.problem) && all[0].problem;
  return h('div', null,
    h('div', { class: 'head' }, h('h1', null, 'Found for ', h(Name, null, query.get('text') ?? ''))),
    problem && h(Notice, null, problem.message),
    all.every((f) => f.data || f.problem) ? h(Everywhere, { all: known }) : h(Ghost));
}
