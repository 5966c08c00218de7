// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package notification

import "time"

// processorTime returns false: the time that Windows reports has steps of 16 ms, many times a measurement.
func processorTime() (time.Duration, bool) { return 0, false }
