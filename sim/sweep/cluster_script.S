# python/moelab/cluster.py in the program's read-only data.
        .section .rodata
        .global moelab_cluster_script_begin
moelab_cluster_script_begin:
        .incbin MOELAB_CLUSTER_SCRIPT
        .global moelab_cluster_script_end
moelab_cluster_script_end:
        .byte 0
        .section .note.GNU-stack, "", %progbits
