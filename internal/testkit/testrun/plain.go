// SPDX-License-Identifier: Apache-2.0

package testrun

import "regexp"

var colors = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Plain returns text for a terminal without its colors.
func Plain(text string) string { return colors.ReplaceAllString(text, "") }
