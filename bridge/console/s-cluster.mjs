// Cluster: who leads, who stands by and what each lacks; the checks, the clocks and the journal of the instance that
// answers.
import { h } from './vendor/preact.mjs';
import { act } from './calls.mjs';
import { Happened } from './s-actions.mjs';
import { Button, Facts, Ghost, Mark, Name, Notice, num, Rel, S, Section, span, Table, When } from './parts.mjs';

const cluster = ['cluster', {}, 2 * S], led = ['events', { kind: 'leader', limit: 20 }, 5 * S];
export const feeds = () => [cluster, led];

export function Cluster({ feed, who, ask }) {
  const f = feed(...cluster), c = f.data, o = feed('overview').data, past = feed(...led).data;
  const able = c?.instances.some((i) => i.role === 'standby' && i.can_lead);
  return h('div', null,
    h('div', { class: 'head' }, h('h1', null, 'Cluster'),
      c && h('p', { class: 'note' }, c.leader ? [h('b', null, h(Name, null, c.leader.instance)),
        ` leads term ${c.term}, for `, h(Rel, { time: c.leader.since, how: 'for' })] : 'Nobody leads.'),
      c?.leader && who?.operate && h('div', { class: 'acts' },
        h(Button, { disabled: !able, title: able ? undefined : 'no other instance could take over',
          onClick: () => ask(resign(c.leader.instance)) }, 'Step down…'))),
    f.problem && h(Notice, null, f.problem.message),
    c ? [h(Instances, { c, may: who?.operate, ask }),
      h('div', { class: 'split' }, h(Checks, { c }), h(Under, { c, o })),
      past && h(Section, { title: 'Who led', note: 'since the instances started' }, h(Happened, past))]
      : !f.problem && h(Ghost));
}

const roles = { leader: ['done', 'leads'], standby: ['waiting', 'stands by'], gone: ['gone', 'is gone'] };

function Instances({ c, may, ask }) {
  const says = (i) => [
    !i.ready && i.role !== 'gone' && `takes no pushes: ${(i.lacks ?? []).join(', ') || 'not ready'}`,
    i.ready && i.lacks?.length > 0 && `lacks ${i.lacks.join(', ')}`,
    i.role === 'standby' && !i.can_lead && 'could not lead', i.other_store && 'uses another store',
    i.role === 'standby' && i.linked === undefined && c.leader && 'has no link to the leader',
    i.differs?.length > 0 && `differs in ${i.differs.join(', ')}`,
    i.restored && `restored ${i.restored}`].filter(Boolean);
  return h(Table, { caption: 'instances', head: [['Instance'], ['Address'], ['Role'], ['What is amiss'], ['Version'],
    ['Act', 'acts']],
  rows: c.instances.map((i) => {
    const [mark, word] = roles[i.role] ?? ['unsure', i.role], amiss = says(i);
    return { key: i.instance, cells: [h('b', null, h(Name, null, i.instance)), h(Name, null, i.address),
      [h(Mark, { is: mark }), word, i.seen && [', last seen ', h(Rel, { time: i.seen })]],
      amiss.length ? [h(Mark, { is: 'late' }), h('bdi', null, amiss.join('; '))] : '–', i.version,
      may && i.role === 'gone' ? h(Button, { onClick: () => ask(forget(i.instance)) }, 'Forget…') : '–'] };
  }) });
}

const Checks = ({ c }) => h(Section, { title: 'What it reaches', note: 'the instance that answers this page' },
  h(Table, { caption: 'checks', head: [['Check'], ['Well'], ['Why not']],
    rows: (c.checks ?? []).map((k) => ({ key: k.name, cells: [k.name.replaceAll('_', ' '),
      [h(Mark, { is: k.ok ? 'done' : 'dead' }), k.ok ? 'yes' : 'no',
        k.buckets?.length > 0 && ` (buckets ${k.buckets.join(', ')})`],
      k.detail ? h('bdi', null, k.detail) : '–'] })) }));

function Under({ c, o }) {
  const { mode, lag } = c.journal ?? {}, rows = [['journal', mode ?? 'not known'],
    ['not in the journal yet', lag && `${num(lag.changes)} changes`],
    ['the oldest of them', lag?.oldest && h(When, { time: lag.oldest, late: true })],
    ['clocks that vote', o?.clocks && num(o.clocks.voters)], ['they are apart', o?.clocks && span(o.clocks.spread_ms)],
    ['clocks', c.clocks && h('bdi', null, c.clocks)]];
  return h(Section, { title: 'Under it' }, h(Facts, { rows: rows.filter(([, value]) => value) }));
}

const resign = (leader) => ({ title: ['Let ', h(Name, null, leader), ' step down?'], button: 'Step down',
  body: 'It finishes what is in flight, and another instance takes over.',
  go: async () => {
    await act('resign', {});
    return 'It has stepped down.';
  } });

const forget = (instance) => ({ title: ['Forget ', h(Name, null, instance), '?'], button: 'Forget',
  body: 'It is no longer listed as gone. If it comes back, it is there again.',
  go: async () => {
    await act('forget', { instance });
    return 'It is forgotten.';
  } });
