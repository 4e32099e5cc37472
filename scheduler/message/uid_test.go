package message

import (
	"math/rand/v2"
	"sort"
	"testing"
	"time"
)

func TestUID_PartsComeBack(t *testing.T) {
	for range 2000 {
		ms, kind := rand.Int64N(uidMaxTime+1), uint64(rand.IntN(2))
		rest, hash := uint32(rand.IntN(1<<uidRestBits)), uint16(rand.IntN(1<<16))
		u := encodeUID(ms, kind, rest, hash)
		high, h := u.bits()
		if want := uint64(ms)<<23 | kind<<22 | uint64(rest); high != want || h != hash {
			t.Fatalf("%s: got %x/%x, want %x/%x", u, high, h, want, hash)
		}
		if !IsUID(string(u)) {
			t.Fatalf("%s is not taken for a uid", u)
		}
		if got := u.Time(); got != Epoch.Add(time.Duration(ms)*time.Millisecond) {
			t.Fatalf("%s: time %s", u, got)
		}
	}
}

func TestUID_SortsByAcceptance(t *testing.T) {
	var us []string
	for i := range 300 {
		us = append(us,
			string(encodeUID(int64(1_000_000+i*7919), uint64(i%2), uint32(i*13%1000), uint16(rand.IntN(1<<16)))))
	}
	if !sort.StringsAreSorted(us) {
		t.Fatal("uids of rising time are not in order")
	}
}

func TestIntakeUID_IsTheSameForARedeliveryAndAnotherForARecreatedStream(t *testing.T) {
	stored := time.Date(2026, 11, 21, 9, 0, 0, 123e6, time.UTC)
	a, err := IntakeUID(700, stored, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := IntakeUID(700, stored, "", ""); a != b {
		t.Fatalf("a redelivery got another uid: %s, %s", a, b)
	}
	if c, _ := IntakeUID(700, stored.Add(time.Second), "", ""); a == c {
		t.Fatalf("a recreated stream repeats %s", a)
	}
	if a.Hash() != 2 {
		t.Fatalf("hash %d, want sequence/256 = 2", a.Hash())
	}
	named, _ := IntakeUID(700, stored, "order-7", "")
	keyed, _ := IntakeUID(700, stored, "order-7", "customer-1")
	if named.Hash() != Hash("order-7") || keyed.Hash() != Hash("customer-1") {
		t.Fatal("the hash of a named push is not of its key, else its id")
	}
	if _, err := IntakeUID(1, time.Unix(0, 0), "", ""); err == nil {
		t.Fatal("a push stored before the epoch was given a uid")
	}
}

func TestUID_ComparesNearbyPushesOfTheIntakeByTheirSequence(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	uid := func(sequence uint64, after time.Duration) UID {
		u, err := IntakeUID(sequence, at.Add(after), "order-7", "")
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	direct := GeneratedUID(at.Add(time.Second).Sub(Epoch).Milliseconds()<<22, 7)
	for name, pair := range map[string][2]UID{ // the earlier one first
		"by time":                           {uid(1, 0), uid(2, time.Second)},
		"stamps step back":                  {uid(1, Nearby), uid(2, 0)},
		"the low bits begin again":          {uid(1<<22-1, time.Second), uid(1<<22+5, 0)},
		"too far apart for the clock":       {uid(2, 0), uid(1, Nearby+time.Millisecond)},
		"one sequence of two streams":       {uid(1, 0), uid(1, time.Second)},
		"another way, by the time of both":  {uid(9, 0), direct},
		"another way, by the time, reverse": {direct, uid(1, 2*time.Second)},
	} {
		if a, b := pair[0], pair[1]; a.Compare(b) >= 0 || b.Compare(a) <= 0 || a.Compare(a) != 0 {
			t.Errorf("%s: %s and %s compare as %d, reversed as %d", name, a, b, a.Compare(b), b.Compare(a))
		}
	}
}

func TestIsUID_RefusesWhatUsersCallTheirMessages(t *testing.T) {
	for _, s := range []string{"", "1234567890123456", "t-", "t-123", "t-123456789012345i", "T-1234567890123456",
		"t-1234567890123456x", "order-17"} {
		if IsUID(s) {
			t.Errorf("%q passes for a uid", s)
		}
	}
}

func FuzzUID(f *testing.F) {
	f.Add("t-0123456789abcdef")
	f.Add("order-1")
	f.Fuzz(func(t *testing.T, s string) {
		if !IsUID(s) {
			return
		}
		u := UID(s)
		high, hash := u.bits()
		if back := encodeUID(int64(high>>23), high>>22&1, uint32(high&(1<<22-1)), hash); back != u {
			t.Fatalf("%q came back as %q", u, back)
		}
	})
}
