// SPDX-License-Identifier: Apache-2.0

// Package clock defines the time that protocol engines are given: they have no clock of their own.
package clock

// Time is nanoseconds of a monotonic clock. Zero means never.
type Time int64
