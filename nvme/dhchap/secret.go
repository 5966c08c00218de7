// SPDX-License-Identifier: Apache-2.0

package dhchap

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"strings"
)

// Hash is the identifier of a hash function (base 2.0, figure 424).
type Hash uint8

// Hash functions.
const (
	SHA256 Hash = 1
	SHA384 Hash = 2
	SHA512 Hash = 3
)

// new returns the function for hash functions that there are; nil for others.
func (h Hash) new() func() hash.Hash {
	switch h {
	case SHA256:
		return sha256.New
	case SHA384:
		return sha512.New384
	case SHA512:
		return sha512.New
	}
	return nil
}

// Size returns the length of a hash in bytes; 0: there is no such function.
func (h Hash) Size() int {
	if f := h.new(); f != nil {
		return f().Size()
	}
	return 0
}

// String returns the function's name.
func (h Hash) String() string {
	switch h {
	case 0:
		return "no hash"
	case SHA256:
		return "SHA-256"
	case SHA384:
		return "SHA-384"
	case SHA512:
		return "SHA-512"
	}
	return fmt.Sprintf("hash %d", uint8(h))
}

// mac returns the HMAC of parts.
func (h Hash) mac(key []byte, parts ...[]byte) []byte {
	m := hmac.New(h.new(), key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// Secret is the key that a host or a controller proves to have. The zero Secret is none.
type Secret struct {
	transform Hash // by which the key is bound to an NQN; 0: it is not
	key       string
}

// secretPrefix begins the representation of a secret.
const secretPrefix = "DHHC-1:"

var errSecret = errors.New(
	"dhchap: no secret: write one like nvme-cli's gen-dhchap-key does, such as DHHC-1:01:…: (with a colon at the end)")

// ParseSecret reads a secret's representation, "DHHC-1:hh:base64:", as nvme-cli's gen-dhchap-key makes it: hh is 00, or
// the hash by which the key is bound to its owner's NQN; the rest are the key's 32, 48 or 64 bytes and their CRC-32
// (base 2.0, 8.13.5.8). Errors say nothing of the secret.
func ParseSecret(text string) (s Secret, err error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	id, rest, colon := strings.Cut(rest, ":")
	if !ok || !colon {
		return s, errSecret
	}
	if len(id) != 2 || id[0] != '0' || id[1] < '0' || id[1] > '3' {
		return s, fmt.Errorf("dhchap: a secret with the hash %q: there are 00 (none), 01, 02 and 03", id)
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(rest, ":"))
	if err != nil {
		return s, errors.New("dhchap: the secret is no base64")
	}
	n := len(b) - 4
	if n != 32 && n != 48 && n != 64 {
		return s, fmt.Errorf("dhchap: a secret of %d bytes: it has 32, 48 or 64, and a CRC-32", max(n, 0))
	}
	if crc32.ChecksumIEEE(b[:n]) != binary.LittleEndian.Uint32(b[n:]) {
		return s, errors.New("dhchap: the secret's CRC-32 is wrong: a character of it is")
	}
	return Secret{Hash(id[1] - '0'), string(b[:n])}, nil
}

// NewSecret draws a secret of 32, 48 or 64 bytes, which is bound to its owner's NQN by a hash; 0: it is not.
func NewSecret(transform Hash, size int) (Secret, error) {
	switch {
	case transform > SHA512:
		return Secret{}, fmt.Errorf("dhchap: %v: there are 1 (SHA-256), 2 (SHA-384), 3 (SHA-512), and 0 (none)",
			transform)
	case size != 32 && size != 48 && size != 64:
		return Secret{}, fmt.Errorf("dhchap: a secret of %d bytes: it has 32, 48 or 64", size)
	}
	b := make([]byte, size)
	rand.Read(b)
	return Secret{transform, string(b)}, nil
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.key == "" }

// Text returns the representation that ParseSecret reads.
func (s Secret) Text() string {
	if s.IsZero() {
		return ""
	}
	b := binary.LittleEndian.AppendUint32([]byte(s.key), crc32.ChecksumIEEE([]byte(s.key)))
	return fmt.Sprintf("%s%02d:%s:", secretPrefix, s.transform, base64.StdEncoding.EncodeToString(b))
}

// String describes the kind of secret without the secret itself: see [Secret.Text].
func (s Secret) String() string {
	if s.IsZero() {
		return "no secret"
	}
	return fmt.Sprintf("%s%02d:(%d bytes)", secretPrefix, s.transform, len(s.key))
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// bound returns the key that the owner of an NQN uses.
func (s Secret) bound(nqn string) []byte {
	if s.transform == 0 {
		return []byte(s.key)
	}
	return s.transform.mac([]byte(s.key), []byte(nqn), []byte("NVMe-over-Fabrics"))
}
