// Package timeline keeps waiting messages in Redis (6.2 or later): in each bucket a ZSET holds the order and a HASH the
// messages. It implements scheduler.Timeline; the suites of schedulertest require the same behaviour of it as of
// store/memory.
//
// # Keys
//
// Every key of bucket b carries the Cluster hash tag {<ns>:b}, so that a script's keys lie in one slot:
//
//	{ns:b}:due            ZSET uid → due_ms*256 + (255 - priority)
//	{ns:b}:msg            HASH uid → packed message, or the record of its end (codec.go)
//	{ns:b}:mark           HASH uid → what changed while it waits: uncertain (a requeued one may be so from the start),
//	                      refusals, changes, lane; most messages have none
//	{ns:b}:name           HASH client id, topic and key → uids in the order of attempts, mostly one; after a slash
//	                      those of earlier attempts that have ended
//	{ns:b}:names          ZSET of the same fields, all of score 0: for look-ups of an id that leave its topic or its
//	                      key open
//	{ns:b}:next           HASH uid → "k" or "r" and the uid of the next message under its name (Merging); only while
//	                      there is one
//	{ns:b}:claimed        HASH uid → term of the leader that claimed it, ":", number of the claim
//	{ns:b}:pull           ZSET uid → score, as in due, of the messages that consumers pull and nobody leases
//	{ns:b}:pull:<topic>   ZSET uid → (255 - priority) * 2^45 + due_ms: the order in which they are handed out, of those
//	                      within their time to live
//	{ns:b}:chain:<topic>\0<key>  ZSET uid → score, as in due, of a key's serial messages that wait without having the key
//	{ns:b}:serial         HASH topic\0key → uid of the serial message that has the key: leased, or waiting for its retry
//	{ns:b}:chained        HASH topic → how many serial messages stand behind another one of their key
//	{ns:b}:pulls          ZSET topic → a time no later than the earliest due time in pull:<topic>; exactly the topics
//	                      whose order holds something
//	{ns:b}:lease          HASH uid → nonce, when the lease began, end of the message's time to live or 0, consumer
//	{ns:b}:leased:<topic> ZSET uid → end of the lease in ms
//	{ns:b}:leasing        ZSET topic → a time no later than the first end in leased:<topic>; exactly the topics with
//	                      leases
//	{ns:b}:expires        ZSET uid → first due time + TTL, of the messages in pull that have a TTL
//	{ns:b}:grant:<nonce>  HASH '' → uids that this call of Lease took, or "-"; uid → "n" or "r" once it came back
//	{ns:b}:parked:<lane>  ZSET uid → score, as in due
//	{ns:b}:behind:<lane>  ZSET uid → its own score, of the messages that a probe put later in the lane: so the oldest
//	                      message of a lane is found without reading messages
//	{ns:b}:lanes          SET of lanes that may hold messages
//	{ns:b}:ended          LIST of ends in order, each a time and then uids; Trim removes them from its head
//	{ns:b}:trimmed        the latest end that was forgotten, in ms
//	{ns:b}:dead           ZSET uid → when it died; its message stays whole
//	{ns:b}:counts         HASH topic → how many of its messages live, or "live dead" where any are dead
//	{ns:b}:tomb, :tombs   HASH of tombstones and the ZSET of their order
//	{ns:b}:paused         HASH pattern → since when, a space, and by whom; '' → when the last change was; the same in
//	                      all buckets
//	{ns:b}:failing        HASH webhook's target → since when it fails, and when last; in the first bucket alone
//	{ns:b}:big            exists once the bucket has had a message of more than 16 KiB: claims then read lengths first
//	{ns:b}:calls, :called HASH call → uid of its push; the two take turns and expire (add.lua)
//	{ns:b}:outbox         STREAM of entries for the journal (entry.go)
//	{ns:b}:outboxed       HASH: bytes and changes in the outbox
//	{ns:b}:quarantine     STREAM of entries that the journal could not hold
//	{ns:b}:refused        HASH uid → step that the table of transitions lacks, or an unreadable record, and when
//	{ns:b}:gen            the bucket's certification: number, data set, due time up to which messages are in
//	                      doubt, phase, that due time for messages that consumers pull; after "held " during a
//	                      change of the number of buckets (rebucket.go)
//	{ns:b}:term           the highest leader term seen
//	{ns}:meta, {ns:b}:meta HASH: buckets, layout, and the term of the last change of buckets
//	{ns:m0}:machines to {ns:m15}:machines   HASH slot → which instance leases this machine id, and until when
//
// The record of an end is kept in msg under the message's own uid, not in a key of its own. One look-up then finds a
// message in any state, and the HMGET that a new push needs anyway also recognizes a repeated push.
//
// Claims are a HASH and not a ZSET ordered by term. Only a sweep and Held ask for them in order, their number is
// bounded by the limit of messages in flight, and a drained message costs Redis less (a ZSET parses, prints and places
// a score each time). Redis keeps a hash of up to 512 short values as a list and searches it from one end, which made a
// claim of 500 quadratic and a third of all its time; one field with an empty name and a value of 65 bytes, above the
// limit of 64 for such a list, prevents that. The first claim creates this field, and it stays.
//
// # Scripts, and what is the same in memory
//
// A transition is written twice on purpose: store/memory is also the model that these scripts are tested against, and
// has found what a script and its author had both missed. The method that runs a script has the same name in both; then
// come its file in store/memory and the files of schedulertest that hold both to the same.
//
//	add          Add          accept.go   name.go, merge.go, attempt.go, serial.go, size.go
//	amend        Amend        merge.go    amend.go
//	audited      Audited      recover.go  recover.go
//	begin        Begin        lead.go     term.go
//	browse       Browse       browse.go   browse.go
//	bury         Bury         accept.go   tombstone.go
//	cancel       Cancel       accept.go   cancel.go
//	certify      Certify      recover.go  certify.go, recover.go
//	claim        Claim        lead.go     order.go
//	counts       Counts       counts.go   counts.go
//	failing      Failing      pull.go     pull.go
//	falls        Falls        counts.go   counts.go
//	find         Find         accept.go   name.go
//	finish       Finish       lead.go     settle.go, refuse.go
//	heads        Heads        lead.go     trial.go
//	held         Held         lead.go     term.go
//	inflight     Counts       counts.go   counts.go
//	lag          Lags         outbox.go   quarantine.go
//	lanes        Lanes        lead.go     trial.go
//	lease        Lease        pull.go     pull.go, serial.go
//	leased       Leased       recover.go  pull.go
//	leases       Leases       pull.go     pull.go
//	pause        Pause        pause.go    pause.go
//	pauses       Pauses       pause.go    pause.go
//	pulled       Pulled       pull.go     pull.go, serial.go
//	purge        Purge        dead.go     dead.go
//	quarantine   Quarantine   outbox.go   quarantine.go
//	quarantined  Quarantined  outbox.go   quarantine.go
//	ready        Ready        pull.go     pull.go
//	refused      Refused      lead.go     refuse.go
//	reject       Reject       outbox.go   quarantine.go
//	requeue      Requeue      dead.go     dead.go
//	restore      Restore      recover.go  recover.go
//	resume       Resume       pause.go    pause.go
//	return       Return       lead.go     settle.go
//	sample       Sample       counts.go   counts.go
//	settle       Settle       pull.go     pull.go, serial.go
//	standing     Standings    recover.go  certify.go, recover.go
//	sweep        Sweep        lead.go     term.go, settle.go
//	totals       Totals       counts.go   counts.go
//	trim         Trim         lead.go     term.go
//	unwritten    Unwritten    outbox.go   quarantine.go
//	versions     Versions     recover.go  recover.go
//	written      Written      outbox.go   quarantine.go
//
// Redis alone has these: time reads its clock; spoiled sets aside records that cannot be read; mirror copies pauses
// from another bucket; machine leases machine ids; raise, mark, hold, take, drop and clear change the layout or the
// number of buckets. server, certified and lib are parts of the other scripts.
//
// # Pull
//
// A message for pull waits in orders of its own, and is ready by the clock alone: nothing moves when it falls due. A
// lease takes it out of them; what ends the lease puts it back or ends the message. No message for pull is ever in due,
// in a lane or in claimed.
//
// Two orders hold each waiting message. A single one for each topic would make the totals, a page of all messages, the
// audit and a restore's clean-up visit every topic; a single one for each bucket would make a consumer of one topic
// read over the others. The second member costs 1 microsecond and 90 bytes. pulls and leasing let a script that
// concerns many topics read only those where something is due: their times may be too early, since what leaves an order
// does not look for the next, and a script that finds nothing due by then corrects them.
//
// A certification leaves in doubt what was due by then. On NATS that passes in seconds, but a backlog of ready messages
// would keep it for life, and could be neither edited nor replaced. So the certification has a doubt of its own for
// messages for pull: none where the journal is in sync, because then every answered acknowledgement is in the journal.
//
// # Merging
//
// A push that merges (message.Merge) meets the last live message under its name. If it is merged into that message, the
// message keeps its uid and its attempt, its mark counts a change, and the outbox receives its amended form, with the
// content only if the content changed. The push itself leaves a short record in msg under its own uid, canceled as
// "merged into" the other, and is listed in ended: so the push is recognized when it is sent again, and is forgotten
// with the ends. This record is not written to the journal, and no name leads to it.
//
// If the push becomes the next message under the name instead, next holds, under the uid of the earlier message, the
// uid of the later one and which of the two gives way when the earlier one is returned: r the earlier, k the later if
// it still waits. Return and sweep check once per script whether next exists, and read it only then; finish and cancel
// remove the next of the messages that they end. Return processes its messages in one script and in their order, since
// two messages of one name may be returned together.
//
// # Counts
//
// counts holds for each topic how many of its messages live, waiting or in flight, and how many are dead. So it changes
// only when a message is accepted, ends, is requeued or changes its topic; a claim, a return and a sweep do not change
// it. The caller of a script counts the messages that are accepted or end. The script uses those counts if the whole
// batch succeeds, as it nearly always does; otherwise it looks at each message. Messages of few topics cost Redis 1 or
// 2 % more than uncounted ones. If no two messages share a topic, each pays for a field of its own: 2.6 microseconds of
// Redis beside 9.0 from push to end (BenchmarkRedis_ATopicEach beside BenchmarkRedis_AddClaimFinish, medians of nine),
// and some 40 bytes and the topic once more while it is held. Counting waiting messages and messages in flight
// separately took 7.7, since every claim moved each message from one field to another.
//
// Both numbers are kept in one field. A field for each was measured and costs the same, but a topic whose only message
// dies would move from one field to the other, and HSCAN is sure to return only a field that exists during the whole
// walk. A field without a name keeps counts from being stored as a list, as in claimed; the certification creates it,
// since every bucket is certified before it is used.
//
// The number of live messages in flight is found when it is asked for: the other live messages wait. claimed holds the
// uids, and its size is bounded by the limit of messages in flight. The topic is part of the message, which can only be
// read whole. So the claims are walked and their messages read in steps bounded by number and bytes, and only if one of
// the topics asked for has live messages. The two counts are not of one instant: if more messages are found in flight
// than were counted as live, the answer is the number counted as live.
//
// Counts walks the names of all topics in small steps, keeps those of the page, and then asks for their counts. So a
// page of any size costs a walk of all topics: for a million topics 1.2 seconds, in 2,000 steps, none of which blocks
// Redis for long.
//
// # Quarantine
//
// An entry of the outbox may be damaged, by a bug, an operator or a broken disk. A damaged entry stops no script. It is
// read as an entry that names the messages whose uids are legible. While it is the oldest, no end is forgotten, since
// its time is not known. An entry that the journal cannot hold is moved to quarantine, with its fields (up to 64 KiB),
// the time, the reason and the messages; it stays there until somebody deletes it. There are at most
// scheduler.MaxQuarantined.
//
// A form with a higher number than the known ones is not damage (codec.go): a newer tarry wrote it. It is refused as
// scheduler.ErrNewer, stays in the outbox, and no restore overwrites it. A leader that meets a message of a newer form
// when it is due sets the message aside as unreadable, since it knows neither its place nor what to send. So all
// leaders must be at least as new as any instance that writes a new form.
//
// # Pauses
//
// Pauses concern all buckets. They are changed in the first bucket, under its certification. A Redis that lost pauses
// is therefore not asked for them before the recovery has restored them from the journal (store/journal), and no
// message is claimed without them. Every other bucket has a copy, updated with each change and each read, and the
// latest copy that answers counts. If a node of a Cluster is unreachable, the pauses still hold for the buckets of the
// other nodes; they cannot be changed if it is the node of the first bucket. With the journal off, pauses are lost with
// Redis.
//
// Pauses are changed in one place because a copy is complete: if there are two copies, only the later one counts, with
// everything that it holds and lacks. Otherwise, two instances that reach different nodes would change different
// copies, each without the pattern that the other has just paused, and the later copy would resume that pattern. To
// accept changes in any bucket that answers, copies would have to be merged pattern by pattern, and each copy would
// have to remember resumes: otherwise a pattern that a copy lacks may be resumed or unknown to it. The journal would
// also need fences for the bucket in which a change was made.
//
// Every change of a pause has a time of its own, later than the time of the previous change whatever the clocks of the
// instances say: so the journal can order any two changes.
//
// # Scripts
//
// Each script in lua/ documents its keys, arguments and result in its head. The loader (scripts.go) reads the KEYS
// line, passes these keys of the bucket to the script, and makes them available under their names in capitals. The
// states and kinds of scheduler/message are available by name too, from their tables. An answer (call.go) reads the
// script's result; its errors name the script and the field that was not as expected.
//
// Scripts validate first and write last, because Lua has no rollback; every script but claim may be sent twice and
// takes effect once. Numbers that may exceed 2^53 never pass through Lua; scores and terms stay below it and travel as
// text. The leader's scripts check the term before anything else.
//
// Under memory pressure (noeviction) Redis refuses a script at its first growing write, and lets it continue once it
// has written. So add fails as a whole, while the leader's scripts, cancel, amend, requeue and purge begin with a
// removal and still work: a full Redis drains.
//
// # Certifications
//
// A bucket is used only while gen certifies the data set of the server that answers (lua/server.lua). Three shortened
// ids name a data set: the server's run id, the id of its history (master_replid in INFO replication) and the id of the
// previous history (master_replid2). Neither of the first two is enough:
//
//   - A primary that is demoted without a restart, takes over its replica's data set
//     and is promoted again has the same run id, but lacks what it accepted after the
//     replica had been promoted. Where the replica was certified in between, gen names
//     the replica; otherwise, only the ids of the histories reveal the loss.
//   - The id of the history changes although the data set is the same: when the first replica
//     attaches, and when the backlog is freed (repl-backlog-ttl) after the last is gone.
//     In these cases the new history has no previous one.
//
// So a data set is the certified one if its history has the same id; or if it has the same run id, and its previous
// history is either absent or the one that it was certified with. A promoted server always has a previous history: that
// of the primary it followed. The script asks for the run id only if the id of the history differs, and so pays for one
// INFO while the history is the same: 2.6 microseconds, against 3.6 for the run id.
//
// One case remains: a server that was demoted and promoted again, and is not checked by a leader until its backlog is
// freed (after an hour by default), is taken for the certified one.
//
// A replica refuses every script with READONLY, even a script that only reads. go-redis then drops the connection, and
// the next one leads to the primary.
//
// # Errors
//
// go-redis's own retries are off, since it cannot know what may be repeated. If Redis answers that the script did not
// run, or a connection cannot be established, the error is ErrUnavailable. If Redis is out of memory, it is ErrFull. If
// a connection breaks or times out, it is ErrOutcomeUnknown. Any other error of Redis is a bug in tarry and is returned
// unchanged.
package timeline
