// SPDX-License-Identifier: Apache-2.0

//go:build !race

package roce_test

const raceDetector = false
