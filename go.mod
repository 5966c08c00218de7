module github.com/ramjet-rdma/ramjet

go 1.26
