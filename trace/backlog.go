// SPDX-License-Identifier: Apache-2.0

package trace

// backlog holds recorded bytes that wait to be written, in chunks that are reused. It copies each
// byte once and, at its working size, allocates nothing.
type backlog struct {
	full  [][]byte // oldest first, at most maxChunks
	last  []byte   // being filled
	spare [][]byte
	added uint64 // bytes, in total
}

func (q *backlog) empty() bool { return len(q.full) == 0 && len(q.last) == 0 }

// fits reports whether the last chunk has room for n more bytes.
func (q *backlog) fits(n int) bool { return n <= cap(q.last)-len(q.last) }

// grow begins a new chunk. It reports false when maxChunks wait.
func (q *backlog) grow() bool {
	if len(q.full) == maxChunks {
		return false
	}
	if len(q.last) > 0 {
		q.full = append(q.full, q.last)
	}
	if n := len(q.spare); n > 0 {
		q.last, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		q.last = make([]byte, 0, chunkLen)
	}
	return true
}

// add lets f append to the last chunk.
func (q *backlog) add(f func([]byte) []byte) {
	n := len(q.last)
	q.last = f(q.last)
	q.added += uint64(len(q.last) - n)
}

// take removes the oldest chunk of a backlog that is not empty.
func (q *backlog) take() []byte {
	if len(q.full) == 0 {
		chunk := q.last
		q.last = nil
		return chunk
	}
	chunk := q.full[0]
	n := copy(q.full, q.full[1:])
	q.full = q.full[:n]
	return chunk
}

// recycle takes back a chunk that take returned.
func (q *backlog) recycle(chunk []byte) { q.spare = append(q.spare, chunk[:0]) }
