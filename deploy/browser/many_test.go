package browser_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// drawn returns how long a screen took, in ms from the start of the navigation until all that it waits for is there.
const drawn = `new Promise((done) => {
	const look = () => document.querySelector("main h1") && !document.querySelector(".ghost") ? done(performance.now())
		: requestAnimationFrame(look);
	look();
})`

// Of 100,000 messages and 5,000 topics each screen is there within three times of what it takes where there is nothing.
// The goal is 300 ms, of which 100 are those of an empty page. Hours of looking take no memory.
func TestConsole_IsQuickOfMany(t *testing.T) { // alone: others would take its time
	_, empty := dev(t, "")
	_, full := dev(t, "")
	random := rand.New(rand.NewPCG(1, 2))
	const messages, topics, batch = 100_000, 5_000, 1_000
	for from := 0; from < messages; from += batch {
		all := make([]push, batch)
		for i := range all {
			all[i] = push{fmt.Sprintf("shop.%d", (from+i)%topics), fmt.Sprintf("%ds", 600+random.IntN(7*24*3600)), "x"}
		}
		pushAll(t, full, all)
	}
	p := open(t, full+"/console")
	shows := func(server, screen string) float64 {
		t.Helper()
		p.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(server+"/console#/"+screen))
		return evaluate[float64](t, p, drawn)
	}
	for _, screen := range []string{"overview", "due", "due?span=month", "stuck", "failed", "messages",
		"messages?topic=shop.7", "topics", "rejected", "pull", "cluster", "actions"} {
		var nothing, many []float64
		for range 3 { // side by side
			nothing, many = append(nothing, shows(empty, screen)), append(many, shows(full, screen))
		}
		slices.Sort(nothing)
		slices.Sort(many)
		t.Logf("%s: %.0f ms, and %.0f of nothing", screen, many, nothing)
		if many[1] > 3*nothing[1] {
			t.Errorf("%s is there after %.0f ms, and after %.0f where there is nothing", screen, many, nothing)
		}
	}
	shows(full, "overview")
	// Each change of the address asks all again, as the two seconds between two polls do.
	used := func(polls int) (bytes float64) {
		t.Helper()
		evaluate[bool](t, p, fmt.Sprintf(`(async () => {
			for (let i = 0; i < %d; i += 1) {
				dispatchEvent(new HashChangeEvent("hashchange"));
				await new Promise((done) => setTimeout(done, 5));
			}
			return true;
		})()`, polls))
		p.do(t, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, heapprofiler.CollectGarbage, cdp.Empty{})
			if err != nil {
				return err
			}
			usage, err := chromedp.Call(ctx, runtime.GetHeapUsage, cdp.Empty{})
			if err == nil {
				bytes = usage.UsedSize
			}
			return err
		}))
		return bytes
	}
	before, after := used(200), used(800)
	t.Logf("%.1f MB after 200 polls, and %.1f after 1,000", before/1e6, after/1e6)
	if after > 60e6 || after > 1.2*before {
		t.Errorf("%.1f MB after 200 polls, and %.1f after 1,000", before/1e6, after/1e6)
	}
}
