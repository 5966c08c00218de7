// SPDX-License-Identifier: Apache-2.0

// Package metric has the values that devices and queue pairs measure: counters and gauges with their units, and
// histograms of durations. The methods Metrics and Latencies of verbs.Device return them, and Stats of verbs.QP.
package metric
