/* SPDX-License-Identifier: Apache-2.0 */

/* librdmacm.so.1: rsockets in an epoll, as rdma-core has them since release 65.
 *
 * An epoll is one of the system's, which other descriptors are in. Rsockets are in a list beside it. They write to an
 * eventfd that is in the system's, so that threads that wait there wake, also in an epoll around it. */

#include "rs.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The address of news_data is the data of the eventfd in the system's epoll: no program has it. */
static char news_data;

struct repoll {
	struct repoll *next;
	int fd;
	int news; /* eventfd: a socket may be ready, or the list has changed */
	int users;
	pthread_mutex_t lock;
	struct rj_watch *list;
	int n, room;
	int first; /* where the next look begins */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list of epolls, and their users */
static struct repoll *all;

static void unref(struct repoll *e)
{
	int last;

	pthread_mutex_lock(&lock);
	last = --e->users == 0;
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	close(e->news);
	free(e->list);
	free(e);
}

/* find returns an epoll that has rsockets; NULL: it has none. */
static struct repoll *find(int fd)
{
	struct repoll *e;

	pthread_mutex_lock(&lock);
	for (e = all; e && e->fd != fd; e = e->next)
		;
	if (e)
		e->users++;
	pthread_mutex_unlock(&lock);
	return e;
}

/* attach makes a list of rsockets for an epoll. NULL: errno says why not. */
static struct repoll *attach(int fd)
{
	struct epoll_event news = { .events = EPOLLIN, .data.ptr = &news_data };
	struct repoll *e = find(fd);

	if (e)
		return e;
	e = calloc(1, sizeof *e);
	if (!e)
		return NULL;
	e->fd = fd;
	e->users = 2; /* the list, and the caller */
	pthread_mutex_init(&e->lock, NULL);
	e->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->news < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, e->news, &news)) {
		if (e->news >= 0)
			close(e->news);
		free(e);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	e->next = all;
	all = e;
	pthread_mutex_unlock(&lock);
	return e;
}

/* drop takes a socket out of an epoll, whose lock is held. */
static void drop(struct repoll *e, int i)
{
	const struct rj_calls *c = rj_rs();

	if (c)
		c->rs_unwatch(e->list[i].fd, e->news);
	e->list[i] = e->list[--e->n];
}

/* closed forgets a number that is closed: an epoll, or an rsocket in some. It returns 1 if it was an epoll. */
static int closed(int fd)
{
	struct repoll **p, *e, *epoll = NULL;
	int i;

	pthread_mutex_lock(&lock);
	for (p = &all; (e = *p);) {
		if (e->fd == fd) {
			epoll = e;
			*p = e->next;
			continue;
		}
		pthread_mutex_lock(&e->lock);
		for (i = 0; i < e->n; i++)
			if (e->list[i].fd == fd)
				drop(e, i--);
		pthread_mutex_unlock(&e->lock);
		p = &e->next;
	}
	pthread_mutex_unlock(&lock);
	if (!epoll)
		return 0;
	pthread_mutex_lock(&epoll->lock);
	while (epoll->n)
		drop(epoll, 0);
	pthread_mutex_unlock(&epoll->lock);
	unref(epoll);
	return 1;
}

int rj_repoll_closed(int fd)
{
	int r;

	INSIDE(r = closed(fd));
	return r;
}

static void became(int fd)
{
	struct epoll_event event;
	struct repoll *e;
	int i;

	pthread_mutex_lock(&lock);
	for (e = all; e; e = e->next) {
		pthread_mutex_lock(&e->lock);
		for (i = 0; i < e->n; i++)
			if (e->list[i].fd == fd) {
				event = (struct epoll_event){ .events = e->list[i].events, .data.u64 = e->list[i].data };
				drop(e, i--);
				epoll_ctl(e->fd, EPOLL_CTL_ADD, fd, &event);
			}
		pthread_mutex_unlock(&e->lock);
	}
	pthread_mutex_unlock(&lock);
}

/* rj_repoll_became puts a number that was an rsocket's, and is the system's now, into the system's epolls. */
EXPORT void rj_repoll_became(int fd) { INSIDE(became(fd)); }

EXPORT int repoll_create(int flags) { return epoll_create1(flags); }

static void tell(struct repoll *e)
{
	const uint64_t one = 1;

	if (write(e->news, &one, sizeof one) < 0)
		return; /* it is full of news */
}

/* change carries out epoll_ctl for an rsocket. The epoll's lock is held. It returns an errno. */
static int change(struct repoll *e, int op, int fd, const struct epoll_event *event)
{
	struct rj_watch *list, *w = NULL;
	int i;

	for (i = 0; i < e->n; i++)
		if (e->list[i].fd == fd)
			w = &e->list[i];
	switch (op) {
	case EPOLL_CTL_ADD:
		if (w)
			return EEXIST;
		if (e->n == e->room) {
			list = realloc(e->list, (2 * e->room + 16) * sizeof *list);
			if (!list)
				return ENOMEM;
			e->list = list;
			e->room = 2 * e->room + 16;
		}
		w = &e->list[e->n++];
		break;
	case EPOLL_CTL_MOD:
		if (!w)
			return ENOENT;
		break;
	case EPOLL_CTL_DEL:
		if (!w)
			return ENOENT;
		drop(e, w - e->list);
		return 0;
	default:
		return EINVAL;
	}
	*w = (struct rj_watch){ .fd = fd, .events = event->events | EPOLLERR | EPOLLHUP, .data = event->data.u64 };
	return 0;
}

static int ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	const struct rj_calls *c = __atomic_load_n(&rj_loaded, __ATOMIC_ACQUIRE);
	struct repoll *e;
	int err;

	if (!c || !c->rs_same(fd, fd))
		return epoll_ctl(epfd, op, fd, event);
	if (op != EPOLL_CTL_DEL && !event) {
		errno = EFAULT;
		return -1;
	}
	e = attach(epfd);
	if (!e)
		return -1;
	pthread_mutex_lock(&e->lock);
	err = change(e, op, fd, event);
	pthread_mutex_unlock(&e->lock);
	if (!err)
		tell(e); /* it may be ready, and a thread may wait */
	unref(e);
	if (err)
		errno = err;
	return err ? -1 : 0;
}

EXPORT int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	int r;

	if (rj_inside)
		return rj_rs_result(-EDEADLK);
	INSIDE(r = ctl(epfd, op, fd, event));
	return r;
}

/* sockets reports the rsockets that have events. It first reads the eventfd: later events make it readable again. */
static int sockets(struct repoll *e, struct epoll_event *events, int room)
{
	const struct rj_calls *c = rj_rs();
	uint64_t count;
	int i, found, n = 0, more = 0;

	if (!c)
		return 0;
	if (read(e->news, &count, sizeof count) < 0)
		count = 0;
	pthread_mutex_lock(&e->lock);
	found = c->rs_watch(e->list, e->n, e->first, room, e->news, &more);
	for (i = 0; n < found && i < e->n; i++) {
		struct rj_watch *w = &e->list[(e->first + i) % e->n];

		if (w->ready)
			events[n++] = (struct epoll_event){ .events = w->ready, .data.u64 = w->data };
	}
	if (e->n)
		e->first = (e->first + 1) % e->n;
	pthread_mutex_unlock(&e->lock);
	if (more)
		tell(e); /* for another thread */
	return n;
}

/* others waits for events of the system's epoll, without the news. It returns 0 if that was all. */
static int others(struct repoll *e, struct epoll_event *events, int room, int timeout)
{
	int i, n = epoll_wait(e->fd, events, room, timeout);

	for (i = 0; i < n; i++)
		if (events[i].data.ptr == &news_data)
			events[i--] = events[--n];
	return n;
}

EXPORT int repoll_wait(int epfd, struct epoll_event *events, int room, int timeout)
{
	int64_t start = rj_rs_now(), end = start + timeout * 1000000LL;
	struct repoll *e;
	int n, more = 0, sleeps;

	if (rj_inside)
		return rj_rs_result(-EDEADLK);
	INSIDE(e = find(epfd));
	if (!e)
		return epoll_wait(epfd, events, room, timeout);
	if (room <= 0 || !events) {
		INSIDE(unref(e));
		errno = events ? EINVAL : EFAULT;
		return -1;
	}
	do {
		INSIDE(n = sockets(e, events, room));
		sleeps = !n && timeout && rj_rs_now() >= start + RJ_RS_SPIN_NS;
		if (n < room)
			more = others(e, events + n, room - n, sleeps ? rj_rs_remaining(end, timeout) : 0);
		if (more < 0 && (n || !sleeps)) /* the events found are not lost */
			more = 0;
		n += more;
	} while (!n && timeout && (timeout < 0 || rj_rs_now() < end));
	INSIDE(unref(e));
	return n;
}
