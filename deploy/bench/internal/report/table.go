package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Markdown is the whole report.
func (b *Book) Markdown() string {
	var w strings.Builder
	b.writeHead(&w)
	b.writeGoals(&w)
	b.writeLateness(&w)
	b.writeDrain(&w)
	b.writeJournal(&w)
	b.writeRestore(&w)
	b.writeOneMachine(&w)
	b.writePlain(&w)
	b.writeFeatures(&w)
	b.writePull(&w)
	b.writeFaults(&w)
	return w.String()
}

func (b *Book) writeHead(w *strings.Builder) {
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(b.Machine.Versions)) {
		versions = append(versions, name+" "+b.Machine.Versions[name])
	}
	fmt.Fprintf(w, "Measured on %s by `deploy/bench`: %s. Servers, tarry, producers and consumer share the machine "+
		"(load before the run: %.1f), over loopback. %s.\n\n",
		b.Started.Format("2006-01-02"), b.Machine, b.Machine.Load, strings.Join(versions, ", "))
	fmt.Fprintf(w, "%s. Bodies of 256 bytes; Redis with `appendonly everysec`; JetStream file store, one replica; "+
		"fresh servers and data for each test. "+
		"Medians of %s; in brackets the least and the greatest.",
		b.Plan, count(b.Repetitions(), "interleaved repetition"))
	if len(b.Faults()) == 0 {
		w.WriteString(" Every message was received once, whole and not early.")
	}
	w.WriteString("\n")
	if b.Quick {
		w.WriteString("\nA quick run: it shows that everything works, and its figures mean little.\n")
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// names are the systems as the tables call them.
func names(system string) string {
	return map[string]string{Tarry: "tarry", TarryTag: "tarry", Consume: "Consume of the library",
		Viewed:    "tarry, ten viewers",
		Schedules: "NATS schedules",
		JetStream: "bare JetStream",
		Redis:     "raw HSET+ZADD", Answered: "an answer after HSET+ZADD",
		JournalOff: "journal off", JournalAsync: "journal async", JournalSync: "journal sync",
		NamesAsync: "journal async, names.keep", NamesSync: "journal sync, names.keep", Before: "before",
		Beanstalkd: "beanstalkd", Asynq: "asynq",
		River: "River on PostgreSQL"}[system]
}

func (b *Book) writeGoals(w *strings.Builder) {
	var rows strings.Builder
	for _, g := range goals(b.Rates) {
		v, ok := b.judge(g)
		if why := b.Skipped[g.own.test]; why != "" && !ok {
			fmt.Fprintf(&rows, "| %s | skipped: %s |  |  | %s |  |\n", g.work, why, g.text())
		}
		if !ok {
			continue
		}
		peer, ratio, want, met := "", "", "", ""
		if v.hasPeer {
			if peer = g.beside; peer == "" {
				peer = names(g.peer.system)
			}
			peer += " " + g.unit.show(v.peer)
			ratio = g.ratio(v.ratio)
		}
		if v.hasGoal {
			want, met = g.text(), "no"
			if v.met {
				met = "yes"
			}
		}
		fmt.Fprintf(&rows, "| %s | %s | %s | %s | %s | %s |\n", g.work, g.unit.show(v.own), peer, ratio, want, met)
	}
	if rows.Len() > 0 {
		w.WriteString("\n| work | tarry | compared with | ratio | goal | met |\n|---|---|---|---|---|---|\n")
		w.WriteString(rows.String())
	}
}

func (g goal) ratio(s spread) string {
	if g.inside {
		return spreadText(fraction, s, "")
	}
	return spreadText(figure, s, "")
}

func (g goal) text() string {
	sign, value := "≥ ", g.least
	if g.most > 0 {
		sign, value = "≤ ", g.most
	}
	switch {
	case !g.peer.given():
		return sign + plain(value) + g.unit.name()
	case g.inside:
		return sign + "1/" + plain(1/value)
	}
	return sign + plain(value) + "×"
}

func plain(value float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", value), "0"), ".")
}

func (b *Book) writeLateness(w *strings.Builder) {
	var rows strings.Builder
	for _, rate := range b.Rates {
		for _, system := range []string{Tarry, Viewed, Schedules, JetStream} {
			b.writeRow(&rows, Thousands(rate)+"/s, "+names(system), Late(rate), system,
				cells(milliseconds, Least, Median, P99, P999, Greatest),
				cells(percent, CPUPercent("tarry"), CPUPercent("redis"), CPUPercent("nats")))
		}
	}
	if rows.Len() > 0 {
		w.WriteString("\nBare JetStream in the next table is a producer that keeps its messages itself and publishes " +
			"each at its moment: the machine's own lateness.\n")
		w.WriteString("\n| lateness, ms (received − due) | least | p50 | p99 | p99.9 | greatest | tarry, % of a core " +
			"| Redis, % | NATS, % |\n|---|---|---|---|---|---|---|---|---|\n")
		w.WriteString(rows.String())
	}
}

func (b *Book) writeDrain(w *strings.Builder) {
	var rows strings.Builder
	for _, system := range []string{Tarry, Schedules, JetStream} {
		b.writeRow(&rows, names(system), Drain, system, cells(perSecond, Rate), cells(milliseconds, First),
			cells(microseconds, CPUMicros("tarry"), CPUMicros("redis"), CPUMicros("nats"), CPUMicros("bench")))
	}
	if rows.Len() > 0 {
		w.WriteString("\n| drain | messages/s | first after, ms | tarry, µs a message | Redis, µs | NATS, µs | " +
			"producers and consumer, µs |\n|---|---|---|---|---|---|---|\n")
		w.WriteString(rows.String())
	}
}

type cell struct {
	unit unit
	name string
}

func cells(u unit, names ...string) (all []cell) {
	for _, name := range names {
		all = append(all, cell{u, name})
	}
	return all
}

// writeRow writes the figures of one system; one that it has not stays empty, and a system with none has no row.
func (b *Book) writeRow(w *strings.Builder, title, test, system string, groups ...[]cell) {
	var line strings.Builder
	found := false
	for _, c := range slices.Concat(groups...) {
		text := ""
		if s, ok := b.series(test, system, c.name).spread(); ok {
			text, found = spreadText(c.unit.one, s, ""), true
		}
		fmt.Fprintf(&line, " %s |", text)
	}
	if found {
		fmt.Fprintf(w, "| %s |%s\n", title, line.String())
	}
}

func (b *Book) writeFaults(w *strings.Builder) {
	if faults := b.Faults(); len(faults) > 0 {
		fmt.Fprintf(w, "\n**This run is invalid**, and the samples named here are left out of the tables:\n\n- %s\n",
			strings.Join(faults, "\n- "))
	}
}
