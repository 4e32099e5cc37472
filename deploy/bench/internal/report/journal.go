package report

import "strings"

// journalGoals are those of the journal: what it may cost beside a tarry without one, and how fast it brings back what
// Redis has lost.
func journalGoals() []goal {
	var all []goal
	for _, of := range []struct {
		test, work string
		least      float64 // in sync mode
	}{
		{JournalPush, "push over HTTP, batches of 1,000", 0.6}, {JournalDrain, "drain, all due at one instant", 0.8},
	} {
		off := figureOf{of.test, JournalOff, Rate}
		all = append(all,
			goal{work: of.work + ", journal sync", own: figureOf{of.test, JournalSync, Rate}, peer: off,
				least: of.least, unit: perSecond},
			goal{work: of.work + ", journal async", own: figureOf{of.test, JournalAsync, Rate}, peer: off,
				unit: perSecond})
	}
	all = append(all,
		goal{work: "journal per waiting message, body and indexes included",
			own: figureOf{JournalPush, JournalSync, JournalBytes}, unit: octets},
		goal{work: "journal per delivered message, its history included",
			own: figureOf{JournalDrain, JournalSync, JournalBytes}, unit: octets})
	for _, of := range [][2]string{{NamesSync, JournalSync}, {NamesAsync, JournalAsync}} {
		all = append(all, goal{work: "push with a new name over HTTP, batches of 1,000, " + names(of[0]),
			own: figureOf{JournalNames, of[0], Rate}, peer: figureOf{JournalNames, of[1], Rate}, least: 0.9,
			unit: perSecond})
	}
	for _, mode := range []string{JournalSync, JournalAsync} {
		all = append(all, goal{work: "Redis lost: until all messages are back, " + names(mode),
			own: figureOf{JournalRestore, mode, Seconds}, most: 60, unit: seconds})
	}
	fed := func(mode, during, before string, least float64, work, beside string) goal {
		return goal{work: work, own: figureOf{JournalRestore, mode, during},
			peer: figureOf{JournalRestore, mode, before}, beside: beside, least: least, unit: perSecond}
	}
	return append(all,
		fed(JournalAsync, FillDuring, FillBefore, 0.8, "feed while all messages come back, journal async",
			"before Redis was lost"),
		fed(JournalSync, FeedDuring, FeedBefore, 0.8, "feed beside an ordered restore of all, journal sync",
			"without a restore"),
		fed(JournalSync, FlatDuring, FlatBefore, 0, "the same, 32 producers as fast as they are answered",
			"without a restore"))
}

var journalModes = []string{JournalOff, JournalAsync, JournalSync}

func (b *Book) writeJournal(w *strings.Builder) {
	var rows strings.Builder
	for _, of := range []struct{ test, work string }{{JournalPush, "push"}, {JournalDrain, "drain"}} {
		for _, mode := range journalModes {
			b.writeRow(&rows, of.work+", "+names(mode), of.test, mode, cells(perSecond, Rate, Rows),
				cells(seconds, Behind), cells(octets, JournalBytes),
				cells(microseconds, CPUMicros("tarry"), CPUMicros("redis"), CPUMicros("nats"), CPUMicros("mariadb")))
		}
	}
	if rows.Len() > 0 {
		w.WriteString("\nThe journal is in MariaDB with `innodb_flush_log_at_trx_commit=1`, a pool of 512 MB and no " +
			"binary log, on the same machine. Its rate is that until it " +
			"has caught up with a push, or over the drain; processor times are those until it has caught up.\n")
		w.WriteString("\n| journal | messages/s | journal, rows/s | behind at the end, s | journal, B a message | " +
			"tarry, µs a message | Redis, µs | NATS, µs | MariaDB, µs |\n|---|---|---|---|---|---|---|---|---|\n")
		w.WriteString(rows.String())
	}
}

func (b *Book) writeRestore(w *strings.Builder) {
	var rows strings.Builder
	for _, mode := range []string{JournalAsync, JournalSync} {
		b.writeRow(&rows, names(mode), JournalRestore, mode, cells(perSecond, Messages), cells(seconds, Seconds),
			cells(perSecond, RestoreRate), cells(seconds, Outage),
			cells(perSecond, FillBefore, FillDuring, Missing), cells(octets, UsedMemory, JournalBytes))
	}
	if rows.Len() > 0 {
		w.WriteString("\n| Redis lost (FLUSHALL) | messages | all back after, s | messages/s | no push accepted for, " +
			"s | feed before, /s | feed meanwhile, /s | missing | Redis, B a message | journal, B a message " +
			"|\n|---|---|---|---|---|---|---|---|---|---|\n")
		w.WriteString(rows.String())
	}
	rows.Reset()
	for _, of := range []struct {
		work  string
		names [5]string
	}{
		{"a feed at a rate", [5]string{FeedBefore, FeedDuring, FeedP99Before, FeedP99During, FeedOrder}},
		{"32 producers as fast as they are answered",
			[5]string{FlatBefore, FlatDuring, FlatP99Before, FlatP99During, FlatOrder}},
	} {
		b.writeRow(&rows, of.work, JournalRestore, JournalSync, cells(perSecond, of.names[0], of.names[1]),
			cells(milliseconds, of.names[2], of.names[3]),
			cells(perSecond, of.names[4]))
	}
	if rows.Len() > 0 {
		w.WriteString("\n| single pushes over HTTP, journal sync | alone, /s | beside a restore of all, /s | p99 " +
			"alone, ms | p99 beside it, ms | that restore reads, /s |\n|---|---|---|---|---|---|\n")
		w.WriteString(rows.String())
	}
}
