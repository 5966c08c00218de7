// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	_ "embed"
	"io"
	"strings"
)

// pageFile is the page around the picture. It needs nothing from anywhere else, and its policy forbids it.
//
//go:embed page.html
var pageFile string

// pageNarrow is the width of the picture that the page shows in narrow windows, such as on phones.
const pageNarrow = 400

// WriteHTML writes the ladder as a page that zooms: one file, without outside resources. It has two pictures, of which
// it shows the one that fits the window.
func (l *Ladder) WriteHTML(w io.Writer, title []string) error {
	name := "Ladder"
	if len(title) > 0 {
		name = title[0]
	}
	before, after, _ := strings.Cut(strings.Replace(pageFile, "{{title}}", escaper.Replace(name), 1), "{{ladder}}")
	if _, err := io.WriteString(w, before); err != nil {
		return err
	}
	if err := l.WriteSVG(w, title, 0); err != nil {
		return err
	}
	if err := (&picture{Ladder: l, w: w, second: true}).draw(title, pageNarrow); err != nil {
		return err
	}
	_, err := io.WriteString(w, after)
	return err
}
