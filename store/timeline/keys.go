package timeline

import (
	"fmt"
	"strconv"
)

// keys are the key names of one bucket.
type keys struct {
	due, msg, mark, name, names, next, claimed, parked, lanes, ended, dead, counts, big, tomb, tombs, term string
	outbox, outboxed, gen, paused, trimmed, meta, refused, quarantine                                      string
}

func bucketKeys(ns string, bucket int) keys {
	p := "{" + ns + ":" + strconv.Itoa(bucket) + "}:"
	return keys{
		due: p + "due", msg: p + "msg", mark: p + "mark", name: p + "name", names: p + "names", next: p + "next",
		claimed: p + "claimed",
		parked:  p + "parked:", lanes: p + "lanes", ended: p + "ended", dead: p + "dead", counts: p + "counts",
		big:  p + "big",
		tomb: p + "tomb", tombs: p + "tombs", term: p + "term",
		outbox: p + "outbox", outboxed: p + "outboxed", gen: p + "gen", paused: p + "paused", trimmed: p + "trimmed",
		meta:    p + "meta",
		refused: p + "refused", quarantine: p + "quarantine",
	}
}

// source is the ZSET a claim takes from: the bucket's own, or a lane's.
func (k *keys) source(lane string) string {
	if lane == "" {
		return k.due
	}
	return k.parked + lane
}

func metaKey(ns string) string { return fmt.Sprintf("{%s}:meta", ns) }

// machinesKey is one of machineKeys that give out machine ids.
func machinesKey(ns string, i int) string { return fmt.Sprintf("{%s:m%d}:machines", ns, i) }
