package dbtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a throwaway certificate authority. Its files go when the test ends.
type Authority struct {
	// File is the PEM file with the authority's own certificate, for those who are to trust it. Anybody may read it.
	File string

	dir    string
	issued int64
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
}

// NewAuthority makes an authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	dir, err := os.MkdirTemp("", "headwater-tls-")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755) // the servers enter it
	}
	if err != nil {
		t.Fatalf("make a folder for certificates: %v", err)
	}
	a := &Authority{File: filepath.Join(dir, "authority.pem"), dir: dir, issued: 1}
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatalf("draw a key: %v", err)
	}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "throwaway authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.write(t, a.File, "CERTIFICATE", a.sign(t, a.cert, &a.key.PublicKey), 0o644)
	return a
}

func (a *Authority) sign(t testing.TB, template *x509.Certificate, public *ecdsa.PublicKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		t.Fatalf("sign a certificate: %v", err)
	}
	return der
}

func (a *Authority) write(t testing.TB, path, kind string, der []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode); err != nil {
		t.Fatalf("write %s: %v", kind, err)
	}
}

// Issue returns the PEM files of a certificate for a server at hosts, which are names or IP addresses, and of its key,
// which the user uid alone may read.
func (a *Authority) Issue(t testing.TB, uid int, hosts ...string) (cert, key string) {
	t.Helper()
	a.issued++
	template := &x509.Certificate{SerialNumber: big.NewInt(a.issued), Subject: pkix.Name{CommonName: "throwaway server"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("draw a key: %v", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatalf("encode a key: %v", err)
	}
	cert, key = filepath.Join(a.dir, fmt.Sprintf("%d-cert.pem", a.issued)), filepath.Join(a.dir, fmt.Sprintf("%d-key.pem", a.issued))
	a.write(t, cert, "CERTIFICATE", a.sign(t, template, &private.PublicKey), 0o644)
	a.write(t, key, "PRIVATE KEY", secret, 0o600)
	if os.Getuid() == 0 {
		if err := os.Chown(key, uid, -1); err != nil {
			t.Fatalf("give the key to the server: %v", err)
		}
	}
	return cert, key
}
