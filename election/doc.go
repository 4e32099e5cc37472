// Package election decides which instance leads, and ends each leadership in time.
//
// Leadership is a context and a term. While an instance leads, one call of the race's [Lead] runs, under a context that
// ends, with a cause that Is [ErrLost], before another instance can win. The term is the fencing number of that
// leadership: it rises with every leadership of a race, never repeats, and every write of the leader carries it.
//
// # Node and race
//
//	Node ── one per instance                     Race ── one per leadership that instances compete for
//	  session: one connection, one time-out        znodes: leader, term
//	  member znode: who is alive, and healthy      standing by, standing, leading, resigning, staying away
//	  health                                       leadership: term, lease, context
//	       │                                            ▲
//	       └── opens a session, registers, then runs ───┘  every race of the node, each on its own goroutine
//
// A [Node] holds any number of races over its one session. They share only what the node knows: one can be resigned,
// fenced or out of time while the node keeps leading the others. The end of the session ends them all. Production has
// one race, without a name. [Solo] is node and race for a single instance: it has no session and no lease, since no
// other instance can win. Its caller keeps a second process out with [LockFile].
//
// # State picture
//
// Of one race:
//
//	               session open, member registered
//	disconnected ─────────────────────────────────▶ standby ◀──────────────────────┐
//	     ▲                                           │   ▲                         │
//	     │                 leader znode is missing,  │   │ lost the race, refused, │
//	     │                 Healthy() == nil          ▼   │ floor unknown           │
//	     │ no connection   and not staying away    candidate                       │
//	     │ and not leading                           │                             │
//	     │                  won, or proved to have   │                             │ lead has returned;
//	     │                  won                      ▼                             │ znode deleted under
//	     │                                         leader                          │ the term's version
//	     │          deadline passed, session over,   │                             │
//	     │          znode gone, Resign, Run's        │                             │
//	     │          context ended, lead returned,    │                             │
//	     │          unhealthy for 2·S while          ▼                             │
//	     └───────── a member is healthy          resigning ────────────────────────┘
//
// The leadership context ends on the way into "resigning", which lasts until Lead has returned. A leader whose
// connection is gone stays leader until its deadline: a connection that comes back in time costs nothing. A race always
// waits for its Lead: two calls of Lead never overlap, and the znode is not given up while one runs.
//
// After Resign, and after resigning as unhealthy, the instance stays away for a random time of 1 to 2·S, or until
// another instance leads. After Lead returned by itself, it stays away for that time whoever leads. After a passed
// deadline it stays away for S/6, because an instance whose writes get lost would otherwise win again before the others
// have looked.
//
// # Znodes
//
//	/tarry/<ns>/leader                ephemeral; who leads: JSON {instance, address, incarnation, term, since}
//	/tarry/<ns>/term                  persistent; the last term given out, as decimal text
//	/tarry/<ns>/races/<name>/…        leader and term of a race that has a name
//	/tarry/<ns>/instances/<instance>  ephemeral; one per live instance: JSON {…, version, healthy, since}
//	/tarry/<ns>/known/<instance>      persistent; the same of each that was ever there, until it is forgotten
//
// # How one instance wins
//
// All instances race for one znode, as Kafka's controllers did, in one transaction:
//
//	Multi[ create leader (ephemeral), setData term = n if its version is still v ]
//
// where n = 1 + the higher of the stored term and Floor, the highest term that Redis knows. The term therefore keeps
// rising when ZooKeeper's data is lost. A member that cannot read Floor does not stand. After success the version of
// the term znode is v+1 until another member wins. That version is the proof that everything else relies on. Renewing
// and giving up are transactions too:
//
//	renew:    Multi[ check term is at version v+1, setData leader ]
//	give up:  Multi[ check term is at version v+1, delete  leader ]
//
// Neither can touch a later leader's znode, and both may be repeated after a lost reply. A version check on the leader
// znode itself would not allow that, since the request whose reply was lost may have raised its version. Versions
// restart if the znodes were deleted, so a renewal counts only if the znode that it wrote also belongs to this session.
//
// # Trust window
//
// S is the session time-out that the server granted, not the one requested. The client library hides it, so the
// connection's wrapper reads it from the handshake (link.go). With T the servers' tickTime:
//
//	renew by write     every S/6, each in a goroutine of its own, each bounded by S/2
//	deadline           monotonic time BEFORE the write was sent + S/2, moved only by an acknowledged write
//	safe bound         S − T/2 − S/6; S ≥ 2T makes that at least 0.58·S, so S/2 is inside it
//	silent server      given up after S/3 without a byte, which leaves S/6 to reach another one in time
//	dial and handshake at most S/3 in all
//
// The reasons: the server expires a session at touch + S rounded up to T (ExpiryQueue.java), so never early against its
// own last touch. But a follower answers pings by itself and reports touches to the ZooKeeper leader only every T/2
// (Learner.ping), so up to T/2 of touches can be lost with the follower. A write is checked against the session at the
// ZooKeeper leader and needs a quorum, so its acknowledgement proves that the session lived when it was processed.
// Reads prove nothing: a leader on a cut-off follower was seen reading its own, long deleted znode for 4.3 to 5.8 s, in
// five of five runs with S = 4 s. zk.Conn's State proves nothing either: after 9 s of SIGSTOP it was still
// StateHasSession.
//
// The deadline is a separate timer. A renewal that is acknowledged after the deadline passed does not revive the lease,
// even when the timer has not fired yet. [Remaining] returns how much of the lease is left, so that each call to Redis
// or NATS can take the lesser of its own time-out and that.
//
// The monotonic clock runs while a process is stopped, but not while its machine is suspended: a virtual machine that
// is paused can wake up inside its "lease". The lease makes two leaders rare; the term, checked by every write of the
// leader, makes them harmless. Both are needed.
//
// # Fast takeover
//
// A process that dies leaves its session behind for up to S + T. Its connections end at once. So each standby holds a
// TCP connection, a link, to the leader's peer port (peer.go). Both sides say hello, with incarnation and term; then
// nothing is sent but a goodbye, if the leadership ends while the leader lives.
//
//	evidence of death    the link ended by FIN or RST without a goodbye, and within 150 ms that incarnation
//	                     does not answer a new hello: refused, closed, unreachable, silent, another incarnation
//	no evidence          a link that falls silent, that fails otherwise, or that never stood: the session decides
//
// The standby then reads the leader's znode. If it is still that incarnation's under that term, it deletes the znode
// under the versions of both, which a leader that renews in between prevents, and all race. This narrows and proves
// nothing: a proxy that dies, or a firewall, can cut a link and refuse the next. Safety rests on the term, as
// everywhere: a living leader that is so deposed learns it at its next renewal, within S/6, and the scripts refuse
// whatever it writes.
//
// The term stands for the leadership where the znode's czxid could: the leader knows it from its win on.
//
// Evidence is used once for a leadership, and for S/2 from the cut, as long as no link stands again. What fails at the
// standby itself, its resolver, network, limits or certificates, is none. An instance that deposed a living leader
// (2·S later the same incarnation is still registered) takes none for dead for 10·S.
//
// A leader whose znode went while its session lived does not stand for 2·S and, while a healthy member is registered,
// not before a peer has reached its port since then: it asks for that in its hello to the next leader, who connects
// back with a probe until that works. Otherwise an instance that can reach the others, and cannot be reached, would
// win again and again. It deposes nobody meanwhile. If nobody leads for 2·S it stands all the same: nobody could do
// better.
//
// The leader so learns of dead standbys: where a link ended and the port of that instance is closed, it removes the
// instance's registration (bury), and a standby does so for a leader that it deposed. So nobody who asks for the
// members counts on it until its session expires. If it lives all the same, it registers again within S.
//
// The port answers registered instances only, by name, incarnation and the term of the leadership; it asks ZooKeeper
// about those that it does not know yet, so that a living leader's answer does not wait for ZooKeeper.
//
// # Answers and unknown outcomes
//
// Only an error that a server can have sent in reply counts as an answer. Everything else (a closed connection, raw
// network errors, one of our time-outs, codes unknown to the library) means that the request may have been applied, or
// may still be.
//
//	call      error                          means                    then
//	race      none                           won                      lead; the deadline counts from before the send
//	          NodeExists, BadVersion         another was faster       standby
//	          NoNode                         paths are gone (wiped)   make them again, race again
//	          SessionMoved, NoAuth, …        refused, not applied     standby; the error stands in State
//	          SessionExpired                 session over             new connection
//	          anything else                  unknown                  prove: Sync, Get leader, Get term. Mine iff the
//	                                                                  leader's EphemeralOwner is my session and
//	                                                                  term.Mzxid == leader.Czxid. Then one renewal,
//	                                                                  since reads give no deadline. Asked until
//	                                                                  answered
//	renew     none                           the session lived        deadline moves
//	          NoNode, BadVersion, or a       znode gone, or a later   lost, at once
//	          znode of another session       leader won
//	          SessionExpired                 session over             lost, at once
//	          anything else                  nothing                  deadline stays
//	give up   none, NoNode, BadVersion       given up                 stay away, or stand by
//	          anything else                  unknown                  the next look finds it and tries again
//	look      leader znode of my session,    left behind by one of    delete under the term's version, race anew
//	          or of my last ones             the above
//	register  NodeExists, of my last ones    my own last session      delete it by version, create again
//	          NodeExists, another's          a crashed predecessor,   wait 2·S for it to expire, then
//	                                         or a second instance     ErrDuplicateInstance
//
// # Who may call
//
// Call Race before Run, Run once at a time, and everything else from any goroutine at any time. Healthy is called from
// one goroutine every S/12, at most once a second, and should answer from memory; if it hangs for 12 turns it counts as
// unhealthy, and Run does not return before it does. Floor is called by a candidate only, with a deadline of S/4.
//
// # What fails, and what follows
//
//   - One ZooKeeper server of three: nothing, when another one answers before the deadline.
//   - ZooKeeper's quorum: leadership ends at the deadline, and begins again when the quorum is back.
//   - A ZooKeeper whose data was wiped: leadership ends at the next renewal; the paths are created again, and the term
//     continues above Floor. The old leader learns nothing before that renewal, so a new one may begin up to S/6 before
//     the old one ends; the term fences the old one.
//   - The leader's process: a standby wins at once by its link or, without one, when the session expires, between 2/3·S
//     and S+T after the death.
//   - The leader's host, or its network: the links fall silent, and a standby wins when the session expires. Where its
//     requests still arrive and no answer does, through a proxy for example, each handshake renews the session: the
//     leader stops at its deadline, gives the session up after S without an answer, and a standby wins within 2·S + T.
//   - A leader that is unhealthy for 2·S while another member is healthy resigns. Without a healthy member it stays:
//     nobody could do better.
//   - Lead returns by itself: taken as "cannot lead here", and handled like a resignation.
//   - Lead does not return after its context ended: Run waits and logs that once every S. Nobody else can win while the
//     session lives, so bound what lead does when it stops.
//
// # The client library
//
// github.com/go-zookeeper/zk v1.0.4 is used for its protocol. Its pitfalls are avoided from outside, by one type that
// makes its connections (dialer) and one that wraps each of them (link):
//
//   - Its Conn outlives sessions, and would run a queued request in the next one. Here one Conn is one session: after
//     expiry, or a changed session id, the dialer refuses, and a new Conn is made. Late callbacks of an old Conn reach
//     only the old session's value.
//   - Its event channel drops events; WithEventCallback does not. Ours stores the state and sets a flag.
//   - Its calls take no context and can block for as long as no server is reachable: each runs in a goroutine that the
//     session owns, under a time-out; the number of those outstanding is bounded.
//   - It has no getter for the granted time-out: the link reads it from the ConnectResponse.
//   - A server that accepts and stays silent blocked it for 6.7·S (40 s measured): the link caps every deadline.
//   - AddAuth can deadlock it on reconnect (its pull request 163): never called. The link sends the digest itself
//     inside each handshake and swallows the reply, so the library does not know about it.
//   - It shows the last zxid it has seen at each handshake, and a server with a lower one hangs up. After the ensemble
//     was wiped every server does so forever, and the session never learns that it has expired. The link hides zxids.
//   - It resolves names once, in Connect, and fails there: the dialer resolves at each dial, and takes the addresses of
//     a name in turn.
//   - It waits a full second before it dials the only server again: the dialer never asks it to, and waits itself: 100
//     ms between two dials of one server, growing to S/6 (at most 1 s) while none answers.
//   - It has no TLS. Nor has tarry towards ZooKeeper: its dialer would be the place.
//   - Lock and CreateProtectedEphemeralSequential leave orphans: not used.
//
// The library contains one data race. Conn.lastZxid is written by recvLoop (conn.go:849) and read by sendSetWatches
// (conn.go:614) on another goroutine, when watches are set again on a new connection while answers to other calls come
// in. Proof: 24,000 ExistsW, four goroutines that Get, a proxy that cuts the connection: "WARNING: DATA RACE" with
// those two lines, at the first cut. The write happens only for a zxid above 0, and the link hides zxids: with it, the
// same program ran six cuts without a report. The other fields that two goroutines use (recvTimeout, conn, closeChan,
// passwd) change only between the end of one connection's goroutines, which a WaitGroup awaits, and the start of the
// next. So the tests here, which cut connections under load, pass under -race with nothing suppressed.
//
// # Why standbys watch, and what makes it safe
//
// A standby keeps one watch per race, on the znode above leader. It fires when the leader znode is created or deleted,
// but not on renewals or health changes. Polling was built first and measured against it (bench_test.go; two cores,
// kept busy by other work, one ZooKeeper on the same machine, S = 6 s):
//
//	                       hand-over p50   p99      processor time of an idle standby
//	poll every 50 ms               49 ms   154 ms   0.8 to 1 % of a core, the polls alone
//	watch and look every S/6        5 ms    68 ms   0.1 to 0.2 %, all that it does
//
// The library's problems with watches do not affect this one. Setting it again does not race (see above), and fires it
// at once because the library then knows no zxid. It is set before the look that relies on it, so no change in between
// is missed. It never outlives its session. If it is lost all the same, the look every S/6 notices.
package election
