// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/ramjet-rdma/ramjet/internal/app/admission"
)

// Sentinels, found with errors.Is.
var (
	// ErrChanged: the source changed since the copy began. Copy it again.
	ErrChanged = errors.New("the file changed during the copy")
	// ErrLost: the connection is lost. The same copy, started again, resumes.
	ErrLost = errors.New("the connection is lost")

	errIdle    = fmt.Errorf("%w: start the copy again, it resumes", admission.ErrIdle)
	errStopped = errors.New("the server was stopped")
)

// Printable returns a peer's text without anything that a terminal would interpret.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// ServerError is the server's error about a file; the connection goes on.
type ServerError struct{ Text string }

func (e *ServerError) Error() string { return "the server says: " + e.Text }
