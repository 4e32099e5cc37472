package browser_test

import (
	"bytes"
	"cmp"
	"context"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// film takes a picture of the window each second, and between them does what steps have by their second. It writes one
// file that shows them all.
func (p *page) film(t *testing.T, name string, seconds int, steps map[int]func()) {
	t.Helper()
	each, frames := time.NewTicker(time.Second), []image.Image(nil)
	defer each.Stop()
	for second := range seconds {
		if do := steps[second]; do != nil {
			do()
		}
		<-each.C
		ctx, stop := context.WithTimeout(p.ctx, patience)
		shot, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		stop()
		if err != nil {
			t.Fatal(err)
		}
		frame, err := png.Decode(bytes.NewReader(shot))
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, frame)
	}
	out, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := gif.EncodeAll(out, moving(frames)); err != nil {
		t.Fatal(err)
	}
}

// moving makes one picture of many: in the colours that they have most, and of each but the first what has changed.
func moving(frames []image.Image) *gif.GIF {
	counts := map[color.Color]int{}
	all := func(in image.Image, see func(x, y int, c color.Color)) {
		for y := in.Bounds().Min.Y; y < in.Bounds().Max.Y; y++ {
			for x := in.Bounds().Min.X; x < in.Bounds().Max.X; x++ {
				see(x, y, in.At(x, y))
			}
		}
	}
	for _, f := range frames {
		all(f, func(_, _ int, c color.Color) { counts[c]++ })
	}
	most := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return cmp.Compare(counts[b], counts[a]) })
	colours := append(color.Palette{color.Transparent}, most[:min(len(most), 255)]...)
	nearest := map[color.Color]uint8{}
	for c := range counts {
		nearest[c] = uint8(1 + colours[1:].Index(c))
	}
	film := &gif.GIF{}
	for i, f := range frames {
		drawn := image.NewPaletted(f.Bounds(), colours)
		all(f, func(x, y int, c color.Color) {
			if i == 0 || frames[i-1].At(x, y) != c {
				drawn.SetColorIndex(x, y, nearest[c])
			}
		})
		film.Image, film.Delay = append(film.Image, drawn), append(film.Delay, 100)
		film.Disposal = append(film.Disposal, gif.DisposalNone)
	}
	return film
}
