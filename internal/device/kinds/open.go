// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"cmp"
	"fmt"
	"os"

	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/roce1"
	"github.com/ramjet-rdma/ramjet/shm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// The variables of the environment that name the files of TLS, in PEM.
const (
	TLSCert = "RAMJET_TLS_CERT" // the device's certificate
	TLSKey  = "RAMJET_TLS_KEY"  // its key
	TLSCA   = "RAMJET_TLS_CA"   // the CAs that verify peers
)

// DeviceVariable is the variable of the environment that names the device where a program names none.
const DeviceVariable = "RAMJET_DEVICE"

// CongestionVariable is the variable of the environment that names the congestion control of RoCEv2 devices which
// are opened without one.
const CongestionVariable = "RAMJET_CC"

// FromEnvironment returns the device that the environment names. set is false if it names none.
func FromEnvironment() (n Name, set bool, err error) {
	text := os.Getenv(DeviceVariable)
	if text == "" {
		return Name{}, false, nil
	}
	if n, err = Parse(text); err != nil {
		return Name{}, true, fmt.Errorf("%s: %w", DeviceVariable, err)
	}
	return n, true, nil
}

func openRoCE(n Name, o *Options) (*verbs.Device, error) {
	return roce.Open(n.Address, &roce.Options{Trace: o.Trace,
		Congestion: cmp.Or(o.Congestion, os.Getenv(CongestionVariable))})
}

func openRoCE1(n Name, o *Options) (*verbs.Device, error) {
	return roce1.Open(n.Address, &roce1.Options{Trace: o.Trace})
}

func openIWARP(n Name, o *Options) (*verbs.Device, error) {
	return iwarp.Open(n.Address, &iwarp.Options{Trace: o.Trace})
}

func openSCTP(n Name, o *Options) (*verbs.Device, error) {
	return iwarp.Open(n.Address, &iwarp.Options{SCTP: true, Trace: o.Trace})
}

func openIWARPS(n Name, o *Options) (_ *verbs.Device, err error) {
	opt := &iwarp.Options{TLS: o.TLS, Refused: o.Refused, Trace: o.Trace}
	if opt.TLS == nil {
		if opt.TLS, err = iwarp.LoadTLS(os.Getenv(TLSCert), os.Getenv(TLSKey), os.Getenv(TLSCA)); err != nil {
			return nil, fmt.Errorf("ramjet: %q: %w (%s, %s and %s name the files)", n.String(), err, TLSCert, TLSKey,
				TLSCA)
		}
	}
	return iwarp.Open(n.Address, opt)
}

func openMemory(n Name, o *Options) (*verbs.Device, error) {
	return shm.Open(n.Address, nil)
}
