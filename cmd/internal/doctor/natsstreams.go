package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/wire"
)

// ownStreams is the prefix of the streams that tarry makes, in every namespace.
const ownStreams = "TARRY_"

// fullWarn is the percentage of a limit above which the doctor warns.
const fullWarn = 75

// intakeRules hold the stream of pushes by tag. intake is there, or new before the first start makes it.
var intakeRules = []rule{
	{"intake", "intake=new clustered= nats.intake.replicas>1", Fail,
		intakeNew + ", which this NATS refuses: it is not a cluster",
		"set nats.intake.replicas to 1, or run NATS as a cluster"},
	{"intake", "intake=new clustered=yes nats.intake.replicas=1", Warn, intakeNew,
		"set nats.intake.replicas to 3: with one copy, the loss of a server loses pushes that NATS has acknowledged"},
	{"intake", "intake=new", OK, intakeNew, ""},
	{"intake", "retention!=workqueue", Fail,
		"{name}: its retention is {retention}, and workqueue is needed: tarry serve does not open the intake", intakeRemove},
	{"intake", "storage!=file", Fail,
		"{name}: it is stored in {storage}: a restart of NATS loses pushes that NATS has acknowledged", intakeRemove},
	{"intake", "sealed=yes", Fail, "{name}: it is sealed", intakeRemove},
	{"intake", "copied=yes", Fail, "{name}: it copies other streams", intakeRemove},
	{"intake", "allow_msg_schedules=yes", Fail, "{name}: NATS's own message schedules are on", intakeRemove},
	{"intake", "subject_transform=yes", Fail, "{name}: it transforms its subjects", intakeRemove},
	{"intake", "allow_msg_ttl=yes", Fail, "{name}: a header can make its messages expire", intakeRemove},
	{"intake", "allow_rollup_hdrs=yes", Fail,
		"{name}: it allows roll-ups: one push with Nats-Rollup deletes all others",
		"set allow_rollup_hdrs to false" + intakeRestart},
	{"intake", "discard!=new", Fail,
		"{name}: discard is {discard}: when it is full, it deletes acknowledged pushes instead of refusing new ones",
		"set discard to new" + intakeRestart},
	{"intake", "max_age>0s", Fail, "{name}: max_age is {max_age}: NATS deletes older pushes",
		"set max_age to 0" + intakeRestart},
	{"intake", "max_msgs>0", Fail, intakeLimit, intakeUnlimit},
	{"intake", "max_msgs_per_subject>0", Fail, intakeLimit, intakeUnlimit},
	{"intake", "no_ack=yes", Fail, "{name}: no_ack is on: a producer never learns whether its push was stored",
		"set no_ack to false" + intakeRestart},
	{"intake", "subjects!={prefix}", Fail, "{name}: its subjects are {subjects}, and nats.prefix needs {prefix}",
		"let an instance with the old prefix empty it first, or set nats.prefix back"},
	{"intake", "", OK,
		"{name}: work queue on {storage}; it refuses new pushes when it is full, and keeps pushes of any age", ""},

	{"intake copies", "intake=there away!=", Warn, "{name} has {copies}, not in step: {away}", "bring these servers back"},
	{"intake copies", "intake=there clustered=yes num_replicas=1", Warn, "{name} has {copies}, in a cluster",
		"set nats.intake.replicas to 3: the loss of a server loses pushes that NATS has acknowledged"},
	{"intake copies", "intake=there clustered= nats.intake.replicas>1 num_replicas!={nats.intake.replicas}", Fail,
		"{name} has {copies}, nats.intake.replicas is {nats.intake.replicas}, and this NATS is not a cluster",
		"set nats.intake.replicas to 1, or run NATS as a cluster"},
	{"intake copies", "intake=there num_replicas!={nats.intake.replicas}", Warn,
		"{name} has {copies}, nats.intake.replicas is {nats.intake.replicas}",
		"the next start changes the stream; make sure that this is intended"},
	{"intake copies", "intake=there clustered=", OK,
		"{name} has {copies}; this NATS is a single server, with a single disk", ""},
	{"intake copies", "intake=there", OK, "{name} has {copies}", ""},

	{"intake room", "intake=there full=yes", Warn, "{room}",
		"raise nats.intake.max_bytes, and find out why tarry does not accept the pushes (tarry health): at the limit, NATS " +
			"refuses further ones"},
	{"intake room", "intake=there", OK, "{room}", ""},

	{"intake duplicates", "intake=there duplicate_window<{window}", Warn,
		"{name} recognizes a repeated push for {duplicate_window}",
		"duplicate_window {window} or more (tarry serve sets it at its next start): around a takeover, a push may be " +
			"stored twice"},
	{"intake duplicates", "intake=there", OK, "recognized for {duplicate_window}", ""},
}

const (
	intakeNew     = "{name} does not exist yet; the first start makes it with {copies} and at most {room}"
	intakeRemove  = "remove or rename it, once it is empty (it holds {messages} messages)"
	intakeRestart = ", or restart an instance: tarry serve corrects it"
	intakeLimit   = "{name}: it has a limit of messages, which tarry did not set"
	intakeUnlimit = "remove max_msgs and max_msgs_per_subject" + intakeRestart
)

// intake checks the stream that holds pushes by tag, and the streams that conflict with it.
func (s *natsSeen) intake(ctx context.Context, streams []link.StreamInfo) {
	name, filter := link.StreamName(s.cfg.Namespace), s.cfg.NATS.Prefix+".>"
	for i := range streams {
		c := &streams[i].Config
		for _, held := range c.Subjects {
			if c.Name == name || !wire.Overlap(held, filter) {
				continue
			}
			who := "stream " + c.Name
			if ns, ours := strings.CutPrefix(c.Name, ownStreams); ours {
				who += ", the intake of namespace " + ns + ","
			}
			s.fail("intake subjects", fmt.Sprintf("%s has %s, and the intake needs %s", who, held, filter),
				"set nats.prefix to a prefix that no other stream and no other namespace uses")
		}
	}
	at := slices.IndexFunc(streams, func(st link.StreamInfo) bool { return st.Config.Name == name })
	if at < 0 {
		s.intakeToCome(name)
		return
	}
	st := &streams[at]
	f := s.streamFacts(st)
	var away []string
	for _, r := range st.Cluster.Replicas {
		if r.Offline || !r.Current {
			away = append(away, r.Name)
		}
	}
	used, most := st.State.Bytes, st.Config.MaxBytes
	room := plural(int(st.State.Messages), "message") + " in it"
	if most > 0 {
		room += fmt.Sprintf(", %s of %s, %d %%", size(used), size(most), share(used, most))
	}
	f.with("intake", "there", "away", shorten(away), "room", room, "full", yes(share(used, most) > fullWarn))
	s.apply(intakeRules, f)
	s.intakeLeft(ctx, name)
}

// intakeToCome checks the stream that the first start will make.
func (s *natsSeen) intakeToCome(name string) {
	replicas := s.cfg.NATS.Intake.Replicas
	s.apply(intakeRules, facts{"intake": "new", "name": name, "nats.intake.replicas": fmt.Sprint(replicas),
		"copies": copies(replicas), "room": size(s.cfg.NATS.Intake.MaxBytes),
		"clustered": yes(s.clustered)})
}

// streamFacts returns a stream's configuration under the names that NATS's own tool has for it.
func (s *natsSeen) streamFacts(st *link.StreamInfo) facts {
	c := &st.Config
	return facts{
		"name": c.Name, "messages": fmt.Sprint(st.State.Messages), "copies": copies(c.Replicas), "retention": c.Retention,
		"storage": c.Storage, "discard": c.Discard, "max_age": c.MaxAge.String(), "no_ack": yes(c.NoAck),
		"sealed": yes(c.Sealed), "copied": yes(c.Mirror != nil || len(c.Sources) > 0),
		"allow_msg_schedules": yes(c.MsgSchedules), "subject_transform": yes(c.Transform != nil),
		"allow_msg_ttl": yes(c.MsgTTL), "allow_rollup_hdrs": yes(c.Rollup), "max_msgs": fmt.Sprint(c.MaxMsgs),
		"max_msgs_per_subject": fmt.Sprint(c.PerSubject), "subjects": strings.Join(c.Subjects, ","),
		"prefix": s.cfg.NATS.Prefix + ".>", "num_replicas": fmt.Sprint(c.Replicas),
		"nats.intake.replicas": fmt.Sprint(s.cfg.NATS.Intake.Replicas), "consumers": fmt.Sprint(st.State.Consumers),
		"clustered":        yes(s.clustered || len(st.Cluster.Replicas) > 0),
		"duplicate_window": c.Duplicates.String(), "window": s.window().String(),
		"full": yes(share(st.State.Bytes, c.MaxBytes) > fullWarn || share(int64(st.State.Messages), c.MaxMsgs) > fullWarn),
	}
}

// intakeLeft checks whether the consumer skips messages of the stream because NATS came back with an older stream.
func (s *natsSeen) intakeLeft(ctx context.Context, name string) {
	const check = "intake consumer"
	var why string
	err := s.asked(ctx, func(ctx context.Context) (err error) {
		why, err = intake.Outrun(ctx, s.nc, s.cfg.Namespace)
		return err
	})
	switch {
	case err != nil:
		s.unchecked(check, err, "let the user publish to "+apiConsumerInfo+name+".tarry and "+apiStreamInfo+name)
	case why != "":
		s.warn(check, why+": NATS came back with an older stream; pushes up to that sequence were accepted and not "+
			"removed, or will never be handed out",
			"start an instance, or look at the log of a running one: it makes a new consumer and reads all pushes of "+
				"the stream, and a push that was accepted before counts once; then upgrade nats-server beyond 2.9. A "+
				"purge would lose pushes")
	default:
		s.ok(check, "it skips nothing in %s", name)
	}
}

// rejectRules hold the stream of rejects. topics are those under which it has as many as it keeps.
var rejectRules = []rule{
	{"rejects", "topics!=", Warn, "{rejects} of the last 7 days, at the limit: topics under {topics}", rejectChange},
	{"rejects", "full=yes", Warn, "{rejects} of the last 7 days", rejectChange},
	{"rejects", "", OK, "{rejects} of the last 7 days", ""},
}

const rejectChange = "look at them (tarry rejected list) and mend their producers: at the limit the oldest are " +
	"dropped; a journal keeps them all"

// rejects checks whether the stream of rejects drops old ones for new ones.
func (s *natsSeen) rejects(ctx context.Context, streams []link.StreamInfo) {
	name, most := link.RejectsName(s.cfg.Namespace), int64(s.cfg.NATS.Rejects.PerSubject)
	if !slices.ContainsFunc(streams, func(st link.StreamInfo) bool { return st.Config.Name == name }) {
		return
	}
	var info struct {
		State struct {
			Messages int              `json:"messages"`
			Bytes    int64            `json:"bytes"`
			Subjects map[string]int64 `json:"subjects"`
		} `json:"state"`
	}
	prefix := link.RejectsSubject(s.cfg.Namespace) + "."
	err := s.asked(ctx, func(ctx context.Context) error {
		return link.AskBriefly(ctx, s.nc, apiStreamInfo+name, map[string]string{"subjects_filter": prefix + ">"}, &info)
	})
	if err != nil {
		s.unchecked("rejects", err, "let the user publish to "+apiStreamInfo+name)
		return
	}
	var full []string
	for subject, n := range info.State.Subjects {
		if n >= most {
			full = append(full, fmt.Sprintf("%s (%d)", strings.TrimPrefix(subject, prefix), n))
		}
	}
	s.apply(rejectRules, facts{"rejects": plural(info.State.Messages, "reject"), "topics": shorten(full),
		"full": yes(share(info.State.Bytes, s.cfg.NATS.Rejects.MaxBytes) > fullWarn)})
}

func copies(n int) string {
	if n == 1 {
		return "1 copy"
	}
	return fmt.Sprintf("%d copies", n)
}

// topicRules hold each stream that messages may be due on. Here a condition is one of a stream; streams are those for
// which it holds.
var topicRules = []rule{
	{"topic duplicates", "no_ack= duplicate_window<{window}", Warn,
		"they recognize a repeated delivery for a shorter time than a takeover takes: {streams}",
		"duplicate_window {window} or more: otherwise a message may arrive twice around a takeover"},
	{"topic duplicates", "", OK, "every stream recognizes a repeated delivery for {window} or longer", ""},
	{"topic storage", "no_ack= storage=memory", Warn,
		"kept in memory: a restart of NATS loses messages that tarry delivered and nobody has read: {streams}",
		"use storage file (in a new stream), or run tarry redeliver after a loss, with the journal on"},
	{"topic storage", "", OK, "all on disk", ""},
	// One that keeps only the latest messages is always at its limit: this matters only if it has consumers.
	{"topic room", "no_ack= full=yes kept=yes", Warn, "near its limit: {streams}",
		"raise max_bytes or max_msgs, or read faster: with discard old, the server deletes unread messages; with discard " +
			"new, messages wait in tarry and arrive late"},
	{"topic room", "", OK, "none near its limit", ""},
	{"topic consumers", "no_ack= retention=interest consumers=0", Warn,
		"they keep only what a consumer wants, and have no consumer: NATS drops what is delivered: {streams}",
		"add a consumer before messages are due, or use retention limits"},
	{"topic acknowledgements", "no_ack=yes", Warn, "no_ack is on: tarry treats their subjects as core NATS: {streams}",
		"no_ack false"},
	{"topic copies", "no_ack= num_replicas=1 clustered=yes", Warn,
		"one copy, in a cluster: the loss of a server loses delivered messages: {streams}", "num_replicas 3"},
}

// destinations checks the streams that messages may be due on.
func (s *natsSeen) destinations(streams []link.StreamInfo) {
	var all []facts
	for i := range streams {
		if st := &streams[i]; isDestination(st) {
			kept := st.Config.Discard == "new" || st.Config.Retention != "limits" || st.State.Consumers > 0
			all = append(all, s.streamFacts(st).with("kept", yes(kept)))
		}
	}
	if len(all) == 0 {
		s.ok("topics", "no stream has a subject that messages may be due on: due messages reach only subscribers that "+
			"listen at that moment")
		return
	}
	s.ok("topics", "%s on which messages may be due", plural(len(all), "stream"))
	found := map[string]bool{}
	for _, r := range topicRules {
		var names []string
		for _, f := range all {
			if f.hold(r.when) {
				names = append(names, f["name"])
			}
		}
		if len(names) > 0 && !found[r.check] {
			found[r.check] = true
			f := facts{"streams": shorten(names), "window": s.window().String()}
			s.add(r.status, r.check, f.fill(r.found), f.fill(r.change), nil)
		}
	}
}

// isDestination reports whether a stream holds subjects that tarry delivers to.
func isDestination(st *link.StreamInfo) bool {
	return !strings.HasPrefix(st.Config.Name, ownStreams) &&
		slices.ContainsFunc(st.Config.Subjects, func(subject string) bool { return !strings.HasPrefix(subject, "$") })
}
