// SPDX-License-Identifier: Apache-2.0

//go:build !race

package simnet_test

const raceDetector = false
