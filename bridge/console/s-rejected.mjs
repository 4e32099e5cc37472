// Rejected: pushes by tag that NATS took and tarry refused. They are no messages until they are mended.
import { h } from './vendor/preact.mjs';
import { act } from './calls.mjs';
import { Button, Field, Ghost, link, Mark, Name, Notice, num, Rel, S, Table, to } from './parts.mjs';

const most = 200;
const rejects = (query) => ['rejects',
  { limit: most, ...query.get('reason') && { reason: query.get('reason') } }, 5 * S];
export const feeds = (query) => [rejects(query)];

export function Rejected({ feed, query, go, who, ask }) {
  const f = feed(...rejects(query)), word = query.get('reason');
  return h('div', null,
    h('div', { class: 'head' }, h('h1', null, 'Rejected'), word && h('p', { class: 'note' }, `${word}, `,
      h('button', { type: 'button', class: 'plain', onClick: () => go({ reason: null }) }, 'all'))),
    f.problem && h(Notice, null, f.problem.message),
    f.data ? h(Rows, { ...f.data, go, may: who?.operate, ask }) : !f.problem && h(Ghost));
}

function Rows({ rejects, cursor, go, may, ask }) {
  if (!rejects.length) return h('p', { class: 'lede' }, 'Nothing was refused.');
  return [
    h('p', { class: 'lede' }, 'NATS acknowledged these pushes, and no message came of them.'),
    h(Table, { caption: 'refused pushes',
      head: [['Stored'], ['Topic'], ['Id'], ['Reason'], ['Bytes', 'n'], ['Act', 'acts']],
      rows: rejects.map((r) => ({ key: r.sequence, cells: [h(Rel, { time: r.at }), h(Name, null, r.topic),
        r.id ? h(Name, null, r.id) : '–',
        [h(Mark, { is: 'refused' }),
          h('button', { type: 'button', class: 'plain', onClick: () => go({ reason: r.reason }) }, r.reason),
          h('span', { class: 'detail' }, ': ', h('bdi', null, r.detail))], num(r.size),
        r.incomplete ? 'not whole' : may ? h(Button, { onClick: () => ask(mend(r)) }, 'Push again…') : '–'] })) }),
    h('p', { class: 'note more' }, `${num(rejects.length)}${cursor ? ', the oldest; there are more' : ''}`),
  ];
}

const header = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):\s*(.*)$/;

const mend = (r) => ({
  title: ['Push ', h(Name, null, r.id ?? r.topic), ' again'], button: 'Push again',
  body: [h('p', { class: 'warntext' }, h(Mark, { is: 'refused' }), ' ', h('bdi', null, `${r.reason}: ${r.detail}`)),
    h('div', { class: 'form' },
      h(Field, { label: 'To topic' }, h('input', { name: 'topic', defaultValue: r.topic, autocomplete: 'off' })),
      h(Field, { label: 'Set a header' },
        h('input', { name: 'set', placeholder: 'Tarry-Delay: 20m', autocomplete: 'off' })),
      h(Field, { label: 'Leave a header out' },
        h('input', { name: 'drop', placeholder: 'Tarry-Ttl', autocomplete: 'off' })))],
  go: async ({ topic, set, drop }) => {
    const [, name, value] = header.exec(set) ?? [];
    if (set && !name) throw new Error('A header is a name, a colon and a value, as in Tarry-Delay: 20m.');
    const { results: [one] } = await act('rejects_requeue', {}, { body: { sequences: [r.sequence],
      ...topic && topic !== r.topic && { topic }, ...name && { set: { [name]: value } },
      ...drop && { drop: [drop] } } });
    if (one.error) throw new Error(one.detail);
    return ['It is the message ', link(to(one.uid), one.uid), one.duplicate ? ', which was there before.' : '.'];
  },
});
