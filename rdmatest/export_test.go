// SPDX-License-Identifier: Apache-2.0

package rdmatest

import "time"

// RaceDetector says whether the tests run with the race detector.
const RaceDetector = raceDetector

// LookOften has the watchdog of worlds that are played from now on look so often that a test need not wait for it.
func LookOften() { look = 50 * time.Millisecond }
