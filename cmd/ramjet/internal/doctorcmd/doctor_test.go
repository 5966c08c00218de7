// SPDX-License-Identifier: Apache-2.0

package doctorcmd

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/doctor"
	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
)

// The exit status follows the problems, not the notes.
func TestDoctorStatus(t *testing.T) {
	f := &doctor.Facts{System: &rdmasys.System{}}
	note, problem := doctor.Finding{Level: doctor.Note}, doctor.Finding{Level: doctor.Problem}
	for _, c := range []struct {
		found []doctor.Finding
		want  string
	}{
		{nil, ""},
		{[]doctor.Finding{note}, ""},
		{[]doctor.Finding{problem, note}, "1 problem to fix"},
		{[]doctor.Finding{problem, problem}, "2 problems to fix"},
	} {
		for _, asJSON := range []bool{false, true} {
			err := writeDiagnosis(new(strings.Builder), f, c.found, asJSON)
			if (err != nil) != (c.want != "") || err != nil && err.Error() != c.want ||
				err != nil && cli.ExitStatus(cli.Failed(err)) != cli.ExitFailed {
				t.Errorf("%+v: %v", c.found, err)
			}
		}
	}
}

// The address of a service is known by the variables of a container, and by its name in DNS; that of a pod is not one.
func TestServiceOf(t *testing.T) {
	environment := []string{"KUBERNETES_SERVICE_HOST=10.96.0.1", "IB_WRITE_BW_SERVICE_HOST=fd00:96::7",
		"IB_WRITE_BW_SERVICE_PORT=10.96.0.9", "X_SERVICE_HOST=None"}
	for address, want := range map[string]string{"10.96.0.1": "kubernetes", "fd00:96::7": "ib-write-bw",
		"10.96.0.9": ""} {
		got := ""
		if s := serviceIn(environment, netip.MustParseAddr(address)); s != nil {
			got = s.Name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	for name, want := range map[string]string{
		"db.ml.svc.cluster.local.": "ml/db", "10-244-0-7.db.ml.svc.cluster.local.": "", "host.example.com.": "",
		"svc.": "", "a.b.svc": "",
	} {
		got := ""
		if s := serviceNamed([]string{"other.", name}); s != nil {
			got = s.Name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
