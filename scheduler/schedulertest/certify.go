package schedulertest

import (
	"testing"

	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Certify certifies every bucket, as the leader does once it has recovered the timeline.
func Certify(t testing.TB, tl record.Recoverable) { CertifyAs(t, tl, false) }

// CertifyAs is Certify for a timeline that may be filled still.
func CertifyAs(t testing.TB, tl record.Recoverable, filling bool) {
	t.Helper()
	standings, err := tl.Standings(t.Context())
	if err != nil {
		t.Fatalf("standings: %v", err)
	}
	r := tl.Recovering(standings, 0, 0)
	for i, s := range standings {
		bucket := message.Bucket(i)
		if _, err := r.Reclaim(t.Context(), bucket, 0, 1, Start); err != nil { // leaves the term there
			t.Fatalf("reclaim bucket %d: %v", bucket, err)
		}
		c := record.Certification{Number: s.Number + 1, Run: s.Now, Filling: filling}
		if err := r.Certify(t.Context(), bucket, 0, c); err != nil {
			t.Fatalf("certify bucket %d: %v", bucket, err)
		}
	}
}
