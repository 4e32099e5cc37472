// Command docs draws docs/tour.svg, the frames of the README's tour, from the text of the tour itself:
//
//	go run ./deploy/docs
//
// Each command of the tour appears with its output, one after the other. A test in deploy/e2e holds that text to what
// the commands really print; the tests here hold the picture to the text, and every link between pages to its target.
package main

import (
	"errors"
	"fmt"
	"html"
	"os"
	"strings"
)

func main() {
	if err := draw("README.md", "docs/tour.svg"); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

// draw writes the picture of the tour in page to the file picture.
func draw(page, picture string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("read the tour: %w", err)
	}
	svg, err := frames(string(text))
	if err != nil {
		return fmt.Errorf("draw the tour: %w", err)
	}
	if err := os.WriteFile(picture, []byte(svg), 0o644); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}

// The picture's measures, in pixels and seconds.
const (
	lineHeight = 20
	margin     = 24
	width      = 900
	pause      = 1.2 // between one command and the next
)

const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" role="img"
  aria-label="A tour of tarry" xml:space="preserve">
<style>
rect { fill: #f6f8fa; stroke: #818b98; }
text { fill: #1f2328; font: 14px ui-monospace, "Liberation Mono", monospace; white-space: pre; }
.command { fill: #0969da; font-weight: 600; }
.note { fill: #818b98; }
@media (prefers-color-scheme: dark) {
  rect { fill: #151b23; stroke: #656c76; }
  text { fill: #f0f6fc; }
  .command { fill: #4493f8; }
}
@media (prefers-reduced-motion: no-preference) {
  g { animation: appear 0.2s both; }
  @keyframes appear { from { opacity: 0; } }
}
</style>
<rect x="1" y="1" width="%[3]d" height="%[4]d" rx="8"/>
`

// frames returns the tour of a page as an SVG.
func frames(page string) (string, error) {
	_, below, found := strings.Cut(page, "\n```console\n")
	tour, _, ended := strings.Cut(below, "```\n")
	if !found || !ended || !strings.HasPrefix(tour, "$ ") {
		return "", errors.New("the page has no tour")
	}
	var b strings.Builder
	height := 2*margin + strings.Count(tour, "\n")*lineHeight
	fmt.Fprintf(&b, head, width, height, width-2, height-2)
	step, y := 0, margin
	for line := range strings.Lines(tour) {
		y += lineHeight
		class := ""
		if strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "# ") {
			if step > 0 {
				b.WriteString("</g>\n")
			}
			fmt.Fprintf(&b, "<g style=\"animation-delay: %.1fs\">\n", float64(step)*pause)
			step++
			class = ` class="command"`
		}
		if strings.HasPrefix(line, "# ") {
			class = ` class="note"`
		}
		line = strings.TrimSuffix(line, "\n")
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\"%s>%s</text>\n", margin, y, class, html.EscapeString(line))
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String(), nil
}
