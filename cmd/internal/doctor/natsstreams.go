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
	s.intakeShape(st)
	s.intakeCopies(st)
	s.intakeRoom(st)
	s.intakeLeft(ctx, name)
	if c := &st.Config; c.Duplicates < s.window() {
		s.warn("intake duplicates", fmt.Sprintf("%s recognizes a repeated push for %s", name, c.Duplicates),
			fmt.Sprintf("duplicate_window %s or more (tarry serve sets it at its next start): around a takeover, a "+
				"push may be stored twice", s.window()))
	} else {
		s.ok("intake duplicates", "recognized for %s", c.Duplicates)
	}
}

// intakeToCome checks the stream that the first start will make.
func (s *natsSeen) intakeToCome(name string) {
	replicas := s.cfg.NATS.Intake.Replicas
	found := fmt.Sprintf("%s does not exist yet; the first start makes it with %s and at most %s", name,
		copies(replicas), size(s.cfg.NATS.Intake.MaxBytes))
	switch {
	case !s.clustered && replicas > 1:
		s.fail("intake", found+", which this NATS refuses: it is not a cluster",
			"set nats.intake.replicas to 1, or run NATS as a cluster")
	case s.clustered && replicas == 1:
		s.warn("intake", found, "set nats.intake.replicas to 3: with one copy, the loss of a server loses pushes that "+
			"NATS has acknowledged")
	default:
		s.ok("intake", "%s", found)
	}
}

// intakeShape checks whether the stream keeps what it acknowledged.
func (s *natsSeen) intakeShape(st *link.StreamInfo) {
	c := &st.Config
	remove := fmt.Sprintf("remove or rename it, once it is empty (it holds %d messages)", st.State.Messages)
	const restart = ", or restart an instance: tarry serve corrects it"
	for _, bad := range []struct {
		is            bool
		found, change string
	}{
		{c.Retention != "workqueue", "its retention is " + c.Retention +
			", and workqueue is needed: tarry serve does not open the intake", remove},
		{c.Storage != "file", "it is stored in " + c.Storage +
			": a restart of NATS loses pushes that NATS has acknowledged", remove},
		{c.Sealed, "it is sealed", remove},
		{c.Mirror != nil || len(c.Sources) > 0, "it copies other streams", remove},
		{c.MsgSchedules, "NATS's own message schedules are on", remove},
		{c.Transform != nil, "it transforms its subjects", remove},
		{c.MsgTTL, "a header can make its messages expire", remove},
		{c.Rollup, "it allows roll-ups: one push with Nats-Rollup deletes all others",
			"set allow_rollup_hdrs to false" + restart},
		{c.Discard != "new", "discard is " +
			c.Discard + ": when it is full, it deletes acknowledged pushes instead of refusing new ones",
			"set discard to new" + restart},
		{c.MaxAge > 0, fmt.Sprintf("max_age is %s: NATS deletes older pushes", c.MaxAge),
			"set max_age to 0" + restart},
		{c.MaxMsgs > 0 || c.PerSubject > 0, "it has a limit of messages, which tarry did not set",
			"remove max_msgs and max_msgs_per_subject" + restart},
		{c.NoAck, "no_ack is on: a producer never learns whether its push was stored", "set no_ack to false" + restart},
		{!slices.Equal(c.Subjects, []string{s.cfg.NATS.Prefix + ".>"}), "its subjects are " +
			strings.Join(c.Subjects, ", ") + ", and nats.prefix needs " + s.cfg.NATS.Prefix + ".>",
			"let an instance with the old prefix empty it first, or set nats.prefix back"},
	} {
		if bad.is {
			s.fail("intake", c.Name+": "+bad.found, bad.change)
			return
		}
	}
	s.ok("intake", "%s: work queue on %s; it refuses new pushes when it is full, and keeps pushes of any age", c.Name,
		c.Storage)
}

func (s *natsSeen) intakeCopies(st *link.StreamInfo) {
	c, want := &st.Config, s.cfg.NATS.Intake.Replicas
	var away []string
	for _, r := range st.Cluster.Replicas {
		if r.Offline || !r.Current {
			away = append(away, r.Name)
		}
	}
	clustered := s.clustered || len(st.Cluster.Replicas) > 0
	found := fmt.Sprintf("%s has %s", c.Name, copies(c.Replicas))
	switch {
	case len(away) > 0:
		s.warn("intake copies", found+", not in step: "+shorten(away), "bring these servers back")
	case clustered && c.Replicas == 1:
		s.warn("intake copies", found+", in a cluster",
			"set nats.intake.replicas to 3: the loss of a server loses pushes that NATS has acknowledged")
	case c.Replicas%2 == 0:
		s.warn("intake copies", found,
			"set nats.intake.replicas to 3: an even number survives no more losses than the odd number below it")
	case c.Replicas != want && !s.clustered && want > 1:
		s.fail("intake copies", fmt.Sprintf("%s, nats.intake.replicas is %d, and this NATS is not a cluster", found,
			want), "set nats.intake.replicas to 1, or run NATS as a cluster")
	case c.Replicas != want:
		s.warn("intake copies", fmt.Sprintf("%s, nats.intake.replicas is %d", found, want),
			"the next start changes the stream; make sure that this is intended")
	case !clustered:
		s.ok("intake copies", "%s; this NATS is a single server, with a single disk", found)
	default:
		s.ok("intake copies", "%s", found)
	}
}

func (s *natsSeen) intakeRoom(st *link.StreamInfo) {
	used, most := st.State.Bytes, st.Config.MaxBytes
	found := plural(int(st.State.Messages), "message") + " in it"
	if most > 0 {
		found += fmt.Sprintf(", %s of %s, %d %%", size(used), size(most), share(used, most))
	}
	change := ""
	if share(used, most) > fullWarn {
		change = "raise nats.intake.max_bytes, and find out why tarry does not accept the pushes (tarry health): at " +
			"the limit, NATS refuses further ones"
	}
	s.judge(Warn, "intake room", found, change)
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
	slices.Sort(full)
	found, change := plural(info.State.Messages, "reject")+" of the last 7 days", ""
	if len(full) > 0 {
		found += ", at the limit: topics under " + shorten(full)
	}
	if len(full) > 0 || share(info.State.Bytes, s.cfg.NATS.Rejects.MaxBytes) > fullWarn {
		change = "look at them (tarry rejected list) and mend their producers: at the limit the oldest are dropped; a " +
			"journal keeps them all"
	}
	s.judge(Warn, "rejects", found, change)
}

func copies(n int) string {
	if n == 1 {
		return "1 copy"
	}
	return fmt.Sprintf("%d copies", n)
}

// destinations checks the streams that messages may be due on.
func (s *natsSeen) destinations(streams []link.StreamInfo) {
	var short, memory, full, lonely, deaf, nobody []string
	n := 0
	for i := range streams {
		st := &streams[i]
		c := &st.Config
		if !isDestination(st) {
			continue
		}
		n++
		if c.NoAck {
			deaf = append(deaf, c.Name)
			continue
		}
		if c.Duplicates < s.window() {
			short = append(short, fmt.Sprintf("%s (%s)", c.Name, c.Duplicates))
		}
		if c.Storage == "memory" {
			memory = append(memory, c.Name)
		}
		// A stream that keeps only the latest messages is always at its limit: this matters only if it has consumers.
		near := share(st.State.Bytes, c.MaxBytes) > fullWarn || share(int64(st.State.Messages), c.MaxMsgs) > fullWarn
		if near && (c.Discard == "new" || c.Retention != "limits" || st.State.Consumers > 0) {
			full = append(full, fmt.Sprintf("%s (discard %s)", c.Name, c.Discard))
		}
		if c.Retention == "interest" && st.State.Consumers == 0 {
			nobody = append(nobody, c.Name)
		}
		if c.Replicas == 1 && (s.clustered || len(st.Cluster.Replicas) > 0) {
			lonely = append(lonely, c.Name)
		}
	}
	if n == 0 {
		s.ok("topics", "no stream has a subject that messages may be due on: due messages reach only subscribers that "+
			"listen at that moment")
		return
	}
	s.ok("topics", "%s on which messages may be due", plural(n, "stream"))
	for _, f := range []struct {
		name    string
		streams []string
		fine    string
		what    string
		change  string
	}{
		{"topic duplicates", short,
			fmt.Sprintf("every stream recognizes a repeated delivery for %s or longer", s.window()),
			"they recognize a repeated delivery for a shorter time than a takeover takes",
			fmt.Sprintf("duplicate_window %s or more: otherwise a message may arrive twice around a "+
				"takeover", s.window())},
		{"topic storage", memory, "all on disk",
			"kept in memory: a restart of NATS loses messages that tarry delivered and nobody has read",
			"use storage file (in a new stream), or run tarry redeliver after a loss, with the journal on"},
		{"topic room", full, "none near its limit", "near its limit",
			"raise max_bytes or max_msgs, or read faster: with discard old, the server deletes unread messages; " +
				"with discard new, messages wait in tarry and arrive late"},
		{"topic consumers", nobody, "",
			"they keep only what a consumer wants, and have no consumer: NATS drops what is delivered",
			"add a consumer before messages are due, or use retention limits"},
		{"topic acknowledgements", deaf, "", "no_ack is on: tarry treats their subjects as core NATS", "no_ack false"},
		{"topic copies", lonely, "", "one copy, in a cluster: the loss of a server loses delivered messages",
			"num_replicas 3"},
	} {
		switch {
		case len(f.streams) > 0:
			s.warn(f.name, f.what+": "+shorten(f.streams), f.change)
		case f.fine != "":
			s.ok(f.name, "%s", f.fine)
		}
	}
}

// isDestination reports whether a stream holds subjects that tarry delivers to.
func isDestination(st *link.StreamInfo) bool {
	return !strings.HasPrefix(st.Config.Name, ownStreams) &&
		slices.ContainsFunc(st.Config.Subjects, func(subject string) bool { return !strings.HasPrefix(subject, "$") })
}
