package load

import (
	"testing"
	"unicode/utf8"
)

func TestABodyTellsItsNumberAndAnyChangeIsSeen(t *testing.T) {
	t.Parallel()
	b := NewBodies()
	for _, want := range []int{0, 1, 65535, 65536, 199_999, 1 << 40} {
		body := b.Append(nil, want)
		if len(body) != BodySize || !utf8.Valid(body) {
			t.Fatalf("body %d is %d bytes of %q, want %d of plain text", want, len(body), body, BodySize)
		}
		if got, ok := b.Number(body); !ok || got != want {
			t.Fatalf("body %d reads as %d, %t", want, got, ok)
		}
		for at := range body {
			changed := append([]byte(nil), body...)
			changed[at] ^= 1
			if got, ok := b.Number(changed); ok && got == want {
				t.Fatalf("body %d with byte %d changed still reads as itself", want, at)
			}
		}
		for _, wrong := range [][]byte{nil, body[:BodySize-1], append(body, 'x')} {
			if _, ok := b.Number(wrong); ok {
				t.Fatalf("a body of %d bytes was taken for one of ours", len(wrong))
			}
		}
	}
}

func TestBodiesOfNeighboursDiffer(t *testing.T) {
	t.Parallel()
	b := NewBodies()
	if string(b.rest(7)) == string(b.rest(8)) {
		t.Fatal("bodies 7 and 8 differ in their number alone")
	}
}

func TestDelaysAreSpreadEvenlyAndWithoutOrder(t *testing.T) {
	t.Parallel()
	const n, parts = 100_000, 10
	var counts [parts]int
	rises := 0
	for i := range n {
		x := Spread(i)
		if x < 0 || x >= 1 {
			t.Fatalf("Spread(%d) is %f", i, x)
		}
		counts[int(x*parts)]++
		if x > Spread(i+1) {
			rises++
		}
	}
	for i, count := range counts {
		if count < n/parts*9/10 || count > n/parts*11/10 {
			t.Errorf("%d of %d fall into part %d of %d", count, n, i, parts)
		}
	}
	if rises < n*4/10 || rises > n*6/10 {
		t.Errorf("%d of %d are followed by a lesser one: they have an order", rises, n)
	}
}
