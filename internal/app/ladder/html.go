// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"bytes"
	_ "embed"
	"io"
	"strings"
)

// pageFile is the page around the picture. It needs nothing from anywhere else, and its policy forbids it.
//
//go:embed page.html
var pageFile string

// WriteHTML writes the ladder as a page that zooms: one file, without outside resources.
func (l *Ladder) WriteHTML(w io.Writer, title []string) error {
	var svg bytes.Buffer
	if err := l.WriteSVG(&svg, title); err != nil {
		return err
	}
	name := "Ladder"
	if len(title) > 0 {
		name = title[0]
	}
	before, after, _ := strings.Cut(strings.Replace(pageFile, "{{title}}", escaper.Replace(name), 1), "{{ladder}}")
	for _, part := range [][]byte{[]byte(before), svg.Bytes(), []byte(after)} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}
