// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"testing"
	"time"
)

// PatientSCTP gives packets any time to arrive, for tests on machines that are busy.
func PatientSCTP(t *testing.T) {
	was := sctpCloseTime
	sctpCloseTime = time.Minute
	t.Cleanup(func() { sctpCloseTime = was })
}
