/* The cores that this process was given. GCC's OpenMP library, which comes along with the matrix library, binds the
 * first thread to one of them as soon as it is loaded, before main, where OMP_PROC_BIND, OMP_PLACES or
 * GOMP_CPU_AFFINITY say so; they are meant for its own threads, of which there are none here. */
#ifndef PENSTOCK_BASE_BINDING_H
#define PENSTOCK_BASE_BINDING_H

/* Gives the first thread the cores back that it had when the process began. Call it before other threads are made,
 * which inherit them. */
void binding_restore(void);

#endif
