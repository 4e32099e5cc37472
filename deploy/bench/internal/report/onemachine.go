package report

import "strings"

func (b *Book) writeOneMachine(w *strings.Builder) {
	var rows strings.Builder
	for _, of := range []struct{ work, system string }{{"memory, SQLite, NATS embedded", Tarry},
		{"Redis, MariaDB and NATS as servers", JournalSync}} {
		b.writeRow(&rows, of.work, OneMachine, of.system, cells(perSecond, Messages, Rate, Of(ByTag, Kept)),
			cells(octets, RSS, JournalBytes), cells(seconds, Seconds))
	}
	if rows.Len() > 0 {
		w.WriteString("\n`tarry serve` with `store: memory`: every push is answered after its commit, and by tag " +
			"acknowledged after its write, each synced to the disk. " +
			"The restart is one after `kill -9` with all the messages waiting, until pushes are taken again.\n")
		w.WriteString("\n| one machine | messages | push over HTTP, batches of 100 (servers: 1,000), /s | by tag, " +
			"256 in flight, /s | process, B a pending message | journal, B a message | restart, s " +
			"|\n|---|---|---|---|---|---|---|\n")
		w.WriteString(rows.String())
	}
}
