// SPDX-License-Identifier: Apache-2.0

//go:build !race

package roce1_test

// raceDetector says whether the tests run with the race detector.
const raceDetector = false
