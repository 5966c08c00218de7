// SPDX-License-Identifier: Apache-2.0

//go:build race

package cm_test

const raceDetector = true
