// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/dhchap"
)

func genKeyCommand() *cobra.Command {
	var hmac uint8
	var size int
	c := &cobra.Command{
		Use:   "gen-dhchap-key",
		Short: "Draw a secret for DH-HMAC-CHAP",
		Long: "Gen-dhchap-key prints a secret by which a host or a target proves who it is. Nvme-cli and Linux take it too. With\n" +
			"--hmac the secret is bound to its owner's NQN: 1 by SHA-256, 2 by SHA-384, 3 by SHA-512.",
		Example: "  ramjet-nvme gen-dhchap-key --hmac 1",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := dhchap.NewSecret(dhchap.Hash(hmac), size)
			if err != nil {
				return usageError{err}
			}
			fmt.Fprintln(c.OutOrStdout(), s.Text())
			return nil
		},
	}
	c.Flags().Uint8Var(&hmac, "hmac", 0, "the hash that binds the secret to an NQN: 1, 2 or 3; 0: none")
	c.Flags().IntVar(&size, "key-length", 32, "bytes of the secret: 32, 48 or 64")
	return c
}

// secret is a flag's value.
type secret struct{ to *dhchap.Secret }

func (s secret) Set(text string) (err error) {
	*s.to, err = dhchap.ParseSecret(text)
	return err
}

func (s secret) Type() string   { return "secret" }
func (s secret) String() string { return "" } // no help shows it

// targetSecrets are the flags of serve about secrets of hosts.
type targetSecrets struct {
	hosts, controllers []string // each NQN=SECRET
	hash, group        string
}

func (s *targetSecrets) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&s.hosts, "dhchap-secret", nil,
		"NQN=SECRET: a host that may connect if it proves to have the secret; may be given again")
	f.StringArrayVar(&s.controllers, "dhchap-ctrl-secret", nil,
		"NQN=SECRET: what the target proves to a host; may be given again")
	f.StringVar(&s.hash, "dhchap-hash", "sha256", "the hash function of proofs: sha256, sha384 or sha512")
	f.StringVar(&s.group, "dhchap-dhgroup", "null",
		"the Diffie-Hellman group of proofs: null, ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144 or ffdhe8192")
}

var (
	hashNames  = map[string]dhchap.Hash{"sha256": dhchap.SHA256, "sha384": dhchap.SHA384, "sha512": dhchap.SHA512}
	groupNames = map[string]dhchap.Group{"null": dhchap.Null, "ffdhe2048": dhchap.FFDHE2048,
		"ffdhe3072": dhchap.FFDHE3072, "ffdhe4096": dhchap.FFDHE4096, "ffdhe6144": dhchap.FFDHE6144,
		"ffdhe8192": dhchap.FFDHE8192}
)

// parse returns the secrets by NQN.
func (s *targetSecrets) parse() (map[string]nvme.HostSecrets, error) {
	hash, ok := hashNames[s.hash]
	if !ok {
		return nil, fmt.Errorf("--dhchap-hash %s: there are sha256, sha384 and sha512", s.hash)
	}
	group, ok := groupNames[s.group]
	if !ok {
		return nil, fmt.Errorf("--dhchap-dhgroup %s: there are null and ffdhe2048 to ffdhe8192", s.group)
	}
	list := map[string]nvme.HostSecrets{}
	for _, text := range s.hosts {
		nqn, secret, err := parseOwned("--dhchap-secret", text)
		if err != nil {
			return nil, err
		}
		list[nqn] = nvme.HostSecrets{Host: secret, Hash: hash, Group: group}
	}
	for _, text := range s.controllers {
		nqn, secret, err := parseOwned("--dhchap-ctrl-secret", text)
		if err != nil {
			return nil, err
		}
		h, ok := list[nqn]
		if !ok {
			return nil, fmt.Errorf("--dhchap-ctrl-secret for %s, which has no --dhchap-secret", nqn)
		}
		h.Controller = secret
		list[nqn] = h
	}
	return list, nil
}

// parseOwned parses NQN=SECRET.
func parseOwned(flag, text string) (nqn string, s dhchap.Secret, err error) {
	i := strings.LastIndex(text, "=DHHC-1:") // a secret may have = signs, and an NQN
	if i < 0 {
		return "", s, fmt.Errorf("%s: write NQN=DHHC-1:…, a host's NQN and a secret of gen-dhchap-key", flag)
	}
	if s, err = dhchap.ParseSecret(text[i+1:]); err != nil {
		return "", s, fmt.Errorf("%s for %s: %w", flag, text[:i], err)
	}
	return text[:i], s, nil
}
