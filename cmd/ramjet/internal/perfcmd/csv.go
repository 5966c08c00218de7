// SPDX-License-Identifier: Apache-2.0

package perfcmd

import (
	"encoding/csv"
	"io"
	"strconv"

	"github.com/ramjet-rdma/ramjet/internal/app/perf"
)

// writePerfCSV writes a line of the table as comma-separated values (RFC 4180), under the names of
// the columns if head.
func writePerfCSV(w io.Writer, r *Row, head bool) {
	lost := uint64(0)
	for _, run := range r.Runs {
		lost += run.Lost
	}
	m := &r.Median
	names := []string{"#bytes", "#iterations", "BW peak[MB/sec]", "BW average[MB/sec]", "MsgRate[Mpps]", "lost"}
	values := []float64{m.BWPeak, m.BWAverage, m.MsgRate}
	if r.Config.Mode == perf.Latency {
		names = []string{"#bytes", "#iterations", "t_min[usec]", "t_max[usec]", "t_typical[usec]", "t_avg[usec]",
			"t_stdev[usec]", "99% percentile[usec]", "99.9% percentile[usec]", "lost"}
		values = []float64{m.Min, m.Max, m.Typical, m.Average, m.Stdev, m.P99, m.P999}
	}
	line := []string{strconv.Itoa(m.Bytes), strconv.FormatUint(m.Iterations, 10)}
	for _, v := range values {
		line = append(line, strconv.FormatFloat(v, 'f', 6, 64))
	}
	line = append(line, strconv.FormatUint(lost, 10))
	out := csv.NewWriter(w)
	if head {
		out.Write(names)
	}
	out.Write(line)
	out.Flush() // an error is that of the command's output
}
