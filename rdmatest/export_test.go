// SPDX-License-Identifier: Apache-2.0

package rdmatest

// RaceDetector says whether the tests run with the race detector.
const RaceDetector = raceDetector
